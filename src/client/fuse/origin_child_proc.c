/* Its bytes come through one pipe, straight to where they belong, its words through another; what came of it its exit code says. */
#include "client/fuse/origin_child_proc.h"

#include "common/base/check.h"
#include "common/base/status.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

enum { WORDS_MAX = 400, SPARE_BYTES = 64, ENVIRONMENT_NAME_MAX = 255 };

struct child
{
    uv_process_t process;
    uv_pipe_t bytes, errors;
    unsigned open;            /* Handles. */
    struct origin_part *part; /* NULL: nobody waits for it any more. */
    char text[ORIGIN_TEXT_MAX], from[24], length[24], silent[24];
    bool ended, too_much;
    int64_t code;
    char words[WORDS_MAX + 1];
    size_t words_count;
    char spare[SPARE_BYTES]; /* What nobody wants. */
};

/* ---- The end ---- */

static void tell(struct child *c)
{
    struct origin_part *part = c->part;
    enum origin_end end = ORIGIN_FAILED;
    const char *words = c->words;

    if (c->code == 0 && !c->too_much) {
        end = ORIGIN_DONE;
    } else if (c->code == ORIGIN_PART_CHANGED) {
        end = ORIGIN_CHANGED;
    } else if (!c->ended) {
        words = "the program that fetches it (\"morsel\") cannot be started";
    } else if (c->too_much || c->words[0] == '\0') {
        words = "the program that fetches it (\"morsel\") failed";
    }
    part->ended(part->data, end, words);
}

static void on_closed(uv_handle_t *handle)
{
    struct child *c = handle->data;

    if (--c->open > 0) {
        return;
    }
    if (c->part != NULL) {
        tell(c);
    }
    free(c);
}

static void close_one(uv_handle_t *handle)
{
    if (!uv_is_closing(handle)) {
        uv_close(handle, on_closed);
    }
}

/* Its number is another one's when it has ended. */
static void kill_one(struct child *c)
{
    if (!c->ended) {
        (void)uv_process_kill(&c->process, SIGKILL);
    }
}

static void on_exit_of(uv_process_t *process, int64_t code, int signal)
{
    struct child *c = process->data;

    c->ended = true;
    c->code = signal != 0 ? -1 : code;
    close_one((uv_handle_t *)process);
}

/* ---- What it says ---- */

static void room_for_bytes(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct child *c = handle->data;
    size_t count = 0;
    uint8_t *room = c->part == NULL ? NULL : c->part->room(c->part->data, &count);

    (void)suggested;
    c->too_much = count == 0;
    *buf = count == 0 ? uv_buf_init(c->spare, SPARE_BYTES)
                      : uv_buf_init((char *)room, (unsigned)count);
}

static void on_bytes(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
    struct child *c = stream->data;

    (void)buf;
    if (count < 0) {
        c->too_much = false; /* It was only asked whether there is more. */
        close_one((uv_handle_t *)stream);
    } else if (count > 0 && c->too_much) {
        kill_one(c);
        close_one((uv_handle_t *)stream);
    } else if (count > 0 && c->part != NULL) {
        c->part->came(c->part->data, (size_t)count);
    }
}

static void room_for_words(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct child *c = handle->data;

    (void)suggested;
    *buf = c->words_count < WORDS_MAX
               ? uv_buf_init(c->words + c->words_count, (unsigned)(WORDS_MAX - c->words_count))
               : uv_buf_init(c->spare, SPARE_BYTES);
}

/* One line of them. */
static void on_words(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
    struct child *c = stream->data;

    if (count < 0) {
        close_one((uv_handle_t *)stream);
    } else if (buf->base != c->spare) {
        c->words_count += (size_t)count;
        c->words[c->words_count] = '\0';
        c->words[strcspn(c->words, "\n")] = '\0';
    }
}

/* ---- Begin and stop ---- */

static int spawn(struct child *c, const char *program)
{
    char command[] = "origin-part";
    char *argv[] = {
        (char *)(uintptr_t)program, command, c->text, c->from, c->length, c->silent, NULL
    };
    uv_stdio_container_t stdio[3] = {
        { .flags = UV_IGNORE },
        { .flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&c->bytes },
        { .flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&c->errors }
    };
    uv_process_options_t options = {
        .exit_cb = on_exit_of, .file = program, .args = argv, .stdio_count = 3, .stdio = stdio
    };

    return uv_spawn(c->process.loop, &c->process, &options);
}

static void open_pipe(uv_loop_t *loop, struct child *c, uv_pipe_t *pipe)
{
    CHECK(uv_pipe_init(loop, pipe, 0) == 0);
    pipe->data = c;
    c->open++;
}

static void stop(struct origin_part *part)
{
    struct child *c = part->visit;

    c->part = NULL;
    kill_one(c); /* Its end is still heard. */
    close_one((uv_handle_t *)&c->bytes);
    close_one((uv_handle_t *)&c->errors);
}

static int start(void *data, struct origin_part *part)
{
    struct origin_children *children = data;
    struct child *c = calloc(1, sizeof(*c));
    int rv;

    if (c == NULL) {
        return MORSEL_NOMEM;
    }
    origin_format(part->origin, c->text);
    (void)snprintf(c->from, sizeof(c->from), "%" PRIu64, part->from);
    (void)snprintf(c->length, sizeof(c->length), "%" PRIu64, part->length);
    (void)snprintf(c->silent, sizeof(c->silent), "%" PRIu64, part->silent_ms);
    open_pipe(children->loop, c, &c->bytes);
    open_pipe(children->loop, c, &c->errors);
    c->process.loop = children->loop;
    c->process.data = c;
    c->open++;
    c->code = -1;
    rv = spawn(c, children->program);
    if (rv == 0) {
        c->part = part;
        part->visit = c;
        (void)uv_read_start((uv_stream_t *)&c->bytes, room_for_bytes, on_bytes);
        (void)uv_read_start((uv_stream_t *)&c->errors, room_for_words, on_words);
        return MORSEL_OK;
    }
    close_one((uv_handle_t *)&c->bytes);
    close_one((uv_handle_t *)&c->errors);
    close_one((uv_handle_t *)&c->process);
    return rv == UV_ENOMEM ? MORSEL_NOMEM : MORSEL_NOENT;
}

/* uv_exepath() tells the program, beside which the other one lies. It is not looked for elsewhere: $PATH may lead into the mount itself,
 * which would wait for its own answer. */
static void find_program(char path[ORIGIN_PROGRAM_MAX])
{
    static const char name[] = "morsel";
    size_t count = ORIGIN_PROGRAM_MAX - sizeof(name);
    char *slash = NULL;

    if (uv_exepath(path, &count) == 0) {
        path[count] = '\0';
        slash = strrchr(path, '/');
    }
    if (slash != NULL) {
        memcpy(slash + 1, name, sizeof(name));
        if (access(path, X_OK) == 0) {
            return;
        }
    }
    path[0] = '\0';
}

/* Who reads what anybody answers is to know no keys, and we have no use for those of S3 either. */
static void forget_keys(void)
{
    for (size_t i = 0; environ != NULL && environ[i] != NULL;) {
        char name[ENVIRONMENT_NAME_MAX + 1];
        size_t count = strcspn(environ[i], "=");

        if (strncmp(environ[i], "AWS_", 4) != 0 || count > ENVIRONMENT_NAME_MAX) {
            i++;
            continue;
        }
        memcpy(name, environ[i], count);
        name[count] = '\0';
        (void)unsetenv(name); /* What was behind it is there now. */
    }
}

void origin_children_init(struct origin_children *children, uv_loop_t *loop)
{
    forget_keys();
    children->loop = loop;
    find_program(children->program);
    children->power = (struct origin_power){ .data = children, .start = start, .stop = stop };
}
