/* Serving morsels: what clients read and write in the donated directory.
 *
 * Morsel m of a data set is the object (set, m) of a store in that directory, and is read and written as an object of an
 * I/O daemon is (common/serve); morsels are written once the manager knows what is here (holdings_uv.h). What a client may do is less: it reads, writes, syncs, and asks what is there. A morsel is
 * deleted by nobody but the manager, whose map says what is whose; and its shape is that of what was written.
 *
 * The owner is not to notice: few threads, a short queue, and what is to be read or written waits until the governor lets it go
 * (governor_uv.h).
 */
#ifndef MORSEL_BENEFACTOR_MORSELS_UV_H
#define MORSEL_BENEFACTOR_MORSELS_UV_H

#include "benefactor/governor_uv.h"
#include "benefactor/holdings_uv.h"
#include "benefactor/hottest.h"
#include "common/serve/object_server_uv.h"

enum { MORSELS_OPEN_FILES = 256 /* Of the 1024 that a process of a desktop may have. */ };

struct morsels
{
    /* The owner's; set before morsels_start(), all else is zero. */
    struct log *log;
    uv_loop_t *loop;
    bool gentle;       /* Whoever uses the machine goes first (governor_uv.h). */
    rpc_handler other; /* Requests that are not for morsels. Answers. */
    void *other_data;

    void (*counted)(void *data); /* It is known what is used; once. */
    void (*news)(void *data);    /* There is something to say to the manager. */
    void *data;

    struct object_server server; /* Its directory, network and manager are also for others here. */
    struct holdings holdings;    /* What is here, which the manager is told. */

    struct hottest hottest;      /* What clients read most. */
    struct governor_uv governor; /* How fast that goes now. */

    /* The module's own. */
    bool paused;
    uint64_t refused_paused;
    uint64_t writes_early; /* Refused: the manager did not know yet what is here. */
    bool started, stopped;
};

/* Listen, open the directory, and serve. On failure with one sentence in `err`; morsels_stop() and morsels_release() are due
 * all the same. Texts are borrowed. */
int morsels_start(struct morsels *m, const char *data_dir, const char *listen, const char *manager,
                  const char *advertise, struct errmsg *err);

/* While it is paused nothing is read and nothing is written: clients are refused (MORSEL_BUSY) and go elsewhere. */
void morsels_pause(struct morsels *m, bool paused);

/* Of a client: to be carried out, refused, or handed to `other`. rpc_handler; `data` is the morsels. */
void morsels_handle(void *data, struct rpc_request *request);

/* Add what it has done to `list`. */
void morsels_count(const struct morsels *m, struct counter_list *list);

/* Stop serving: what runs ends, nobody is answered any more. Harmless when repeated. */
void morsels_stop(struct morsels *m);

/* After the loop has ended: close the store and the directory. */
void morsels_release(struct morsels *m);

#endif
