/* The host of a voter (voter.h): its votes on disk, its questions and answers on the wire.
 *
 *   VOTE, VOTES_READ, VOTES_CARRY ---> voter ---> PERSIST: all that has changed is written, in the pool
 *                                        ^                        |
 *                answers leave <---------+------- PERSISTED ------+
 *
 * One write at a time; what is asked meanwhile goes with the next. Who asks is who may: VOTE storage
 * servers, the other two the manager. What nobody who follows the rules asks is answered so
 * (VOTE_NONSENSE), and leaves no trace.
 *
 * A file of votes that is damaged is put aside and the voter has a new id (votes_file.h); the manager
 * then replaces it in the set. One of a newer format, or that cannot be read, is left alone, and the
 * daemon does not start. */
#ifndef MORSEL_COMMON_VOTE_VOTER_UV_H
#define MORSEL_COMMON_VOTE_VOTER_UV_H

#include "common/daemon/log.h"
#include "common/rpc/rpc_uv.h"
#include "common/vote/votes_file.h"
#include "vote.pb-c.h"

struct voter_uv
{
    uv_loop_t *loop;
    struct log *log;
    struct votes_file *file;
    struct voter *voter;  /* NULL: not open. */
    uint64_t wanted;      /* PERSIST up to this number was asked for; 0: of none. */
    bool writing, failed; /* `failed`: the last write did; it is in the log. */
    bool stopping;
    void (*stopped)(void *data);
    void *stopped_data;

    /* What is being written. */
    uv_work_t work;
    bool all;
    uint64_t number, set_version;
    struct vote_record *records;
    uint32_t count;
    int status;
    struct errmsg err;
};

/* A question of the host itself. */
struct voter_question
{
    /* Once; at once or later. */
    void (*answered)(struct voter_question *q, const struct vote_answer *answer);
};

/* Read the votes in `dir`, or begin without any. Blocks: it is for the start. On failure with one
 * sentence in `err`; voter_uv_free() is harmless then. `v` is zero before. */
int voter_uv_open(struct voter_uv *v, const char *dir, uv_loop_t *loop, struct log *log,
                  struct errmsg *err);

/* A request of one of the three types; it is answered. */
void voter_uv_handle(struct voter_uv *v, struct rpc_request *request);

/* The host asks: `event` without its tag. `q` stays until it is answered. */
void voter_uv_ask(struct voter_uv *v, struct voter_event *event, struct voter_question *q);

/* All that wait are answered, behind the write that is under way; nothing is written any more. If one
 * is under way, `stopped` (may be NULL) runs behind it; otherwise nothing of it is left. */
void voter_uv_stop(struct voter_uv *v, void (*stopped)(void *data), void *data);

/* After the loop has ended. */
void voter_uv_free(struct voter_uv *v);

/* A page of records as it goes over the wire; `records` is borrowed. */
struct vote_page
{
    Morsel__VoteBallot promised[VOTE_PAGE_MAX], ballots[VOTE_PAGE_MAX];
    Morsel__VoteRecord items[VOTE_PAGE_MAX], *pointers[VOTE_PAGE_MAX];
};
void vote_page_fill(struct vote_page *page, const struct vote_record *records, uint32_t count);

/* As many servers as the subject has. */
size_t vote_subject_count(const struct vote_subject *subject);

#endif
