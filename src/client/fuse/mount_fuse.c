/* What all requests have in common (beginning, end, interruption), and the FUSE session on the
 * loop. */
#include "client/fuse/mount_fuse.h"

#include "client/coherence/size_lock_uv.h"
#include "common/base/check.h"
#include "common/base/status.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- One request ---- */

static void on_interrupt(fuse_req_t req, void *data)
{
    struct mount_op *op = data;

    (void)req;
    op->interrupted_ms = uv_now(op->mount->client->loop);
    if (op->interrupted_ms == 0) {
        op->interrupted_ms = 1;
    }
    if (op->cancel_at_once) {
        op->cancel(op);
    }
}

void *mount_op_new(fuse_req_t req, enum mount_kind kind, size_t size)
{
    return mount_op_new_head(req, kind, size, size);
}

void *mount_op_new_head(fuse_req_t req, enum mount_kind kind, size_t size, size_t head)
{
    struct mount_op *op = malloc(size);
    struct mount *m = fuse_req_userdata(req);

    if (op == NULL) {
        (void)fuse_reply_err(req, ENOMEM);
        return NULL;
    }
    mount_heard(m, (uint32_t)fuse_req_ctx(req)->pid);
    memset(op, 0, head);
    op->mount = m;
    op->req = req;
    op->kind = kind;
    op->inode = m->asked;
    op->arrived_ns = uv_hrtime();
    op->call.data = op;
    list_init(&op->node);
    list_push_back(&m->ops, &op->node);
    m->ops_count++;
    fuse_req_interrupt_func(req, on_interrupt, op);
    if (kind != MOUNT_LOOKUP) {
        kernel_names_other(m->names, (uint32_t)fuse_req_ctx(req)->pid);
    }
    return op;
}

void mount_op_end(struct mount_op *op)
{
    struct mount_statistics *s = &op->mount->statistics[op->kind];

    s->served++;
    s->served_ns += uv_hrtime() - op->arrived_ns;
    s->bytes += op->bytes;
    list_remove(&op->node);
    op->mount->ops_count--;
    free(op);
}

static void fail(struct mount_op *op, int status)
{
    op->mount->statistics[op->kind].failed += status != 0;
    if (status == MORSEL_STALE) {
        kernel_names_sent_back(op->mount->names, (uint32_t)fuse_req_ctx(op->req)->pid,
                               client_present_ms(op->mount->client));
    }
    (void)fuse_reply_err(op->req, client_errno(op->mount->client, status));
}

void mount_op_fail(struct mount_op *op, int status)
{
    if (!op->given_up) {
        fail(op, status);
    }
    mount_op_end(op);
}

void mount_op_bound(struct mount_op *op, void (*give_up)(struct mount_op *op))
{
    uint64_t timeout_ms = op->mount->client->options.io_timeout_ms;

    op->give_up = give_up;
    op->give_up_ms =
        timeout_ms == RPC_NO_DEADLINE ? UINT64_MAX : uv_now(op->mount->client->loop) + timeout_ms;
}

void mount_op_answer(struct mount_op *op, int status)
{
    CHECK(!op->given_up);
    op->given_up = true;
    op->give_up = NULL;
    op->interrupted_ms = 0; /* Nobody waits for it who could be interrupted. */
    fail(op, status);
}

void mount_op_give_up(struct mount_op *op)
{
    mount_op_answer(op, MORSEL_TIMEDOUT);
}

bool mount_op_ask(struct mount_op *op, enum message_type type, const ProtobufCMessage *request,
                  const ProtobufCMessageDescriptor *reply_type, meta_call_cb done)
{
    int rv = meta_call_start(&op->call, op->mount->client, type, request, reply_type, done);

    if (rv != 0) {
        mount_op_fail(op, rv);
    }
    return rv == 0;
}

bool mount_op_change(struct mount_op *op, enum message_type type, const ProtobufCMessage *request,
                     Morsel__OpId **op_id, const ProtobufCMessageDescriptor *reply_type,
                     meta_call_cb done)
{
    int rv =
        meta_change_start(&op->call, op->mount->client, type, request, op_id, reply_type, done);

    if (rv != 0) {
        mount_op_fail(op, rv);
    }
    return rv == 0;
}

void mount_op_cancel_asking(struct mount_op *op)
{
    meta_call_cancel(&op->call);
    size_ask_cancel(&op->ask);
}

static void on_size(struct size_ask *ask, int status)
{
    struct mount_op *op = CONTAINER_OF(ask, struct mount_op, ask);

    op->go(op, status);
}

void mount_refresh_size(struct mount_op *op, struct file *file,
                        void (*go)(struct mount_op *op, int status))
{
    op->go = go;
    size_ask_start(&op->ask, file, on_size);
}

ProtobufCBinaryData mount_bytes(const char *text)
{
    return (ProtobufCBinaryData){ strlen(text), (uint8_t *)(uintptr_t)text };
}

static struct timespec timespec_of(uint64_t ns)
{
    int64_t signed_ns = (int64_t)ns, seconds = signed_ns / 1000000000,
            rest = signed_ns % 1000000000;

    if (rest < 0) {
        rest += 1000000000;
        seconds--;
    }
    return (struct timespec){ seconds, rest };
}

void mount_stat(const Morsel__Attr *attr, struct stat *st)
{
    memset(st, 0, sizeof(*st));
    st->st_ino = attr->inode;
    st->st_mode = attr->mode;
    st->st_nlink = attr->nlink;
    st->st_uid = attr->uid;
    st->st_gid = attr->gid;
    st->st_rdev = attr->rdev;
    st->st_size = (off_t)attr->size;
    st->st_blocks = (blkcnt_t)((attr->size + 511) / 512);
    st->st_blksize =
        128 << 10; /* What cp and stdio take as their buffer; whole requests are made of it. */
    st->st_atim = timespec_of(attr->atime_ns);
    st->st_mtim = timespec_of(attr->mtime_ns);
    st->st_ctim = timespec_of(attr->ctime_ns);
}

static double lease_seconds(struct mount *m)
{
    return (double)client_lease_left_ms(m->client) / 1000.0;
}

/* Until when the kernel may use what it is told now: it counts from when whoever asked runs again,
 * which may be late on a busy machine. A recall behind that time does not bother it. */
static uint64_t until_ns(double seconds)
{
    static const uint64_t late_ns = 20000000000U;

    return rpc_boot_ns() + (uint64_t)(seconds * 1e9) + late_ns;
}

double mount_attr_seconds(struct mount *m, const Morsel__Attr *attr)
{
    const struct file *file = file_find(m->client, attr->inode);
    double seconds;

    /* How much space a sparse file uses takes a GETATTR to find out. */
    if (attr->sparse || client_lease(m->client, attr->inode) == LEASE_NONE ||
        (file != NULL && (file_is_shared(file) || file_became_sparse(file)))) {
        return 0;
    }
    seconds = lease_seconds(m);
    kernel_known_attr(meta_cache_kernel(m->client->cache, attr->inode), until_ns(seconds));
    return seconds;
}

void mount_note_told(struct file *file, const struct stat *st)
{
    kernel_view_told(&file->kernel, (uint64_t)st->st_size, &st->st_mtim);
}

void mount_note_names(struct mount *m, inode_id directory)
{
    kernel_known_names(meta_cache_kernel(m->client->cache, directory), until_ns(lease_seconds(m)));
}

void mount_note_lookup(struct mount *m, const struct fuse_entry_param *entry)
{
    struct looked_up *slot = &m->looked_up[m->looked_up_next];

    if (entry->attr_timeout > 0) {
        return;
    }
    *slot = (struct looked_up){ entry->ino, uv_now(m->client->loop), entry->attr };
    m->looked_up_next = (m->looked_up_next + 1) % LOOKED_UP_MAX;
}

const struct stat *mount_lookup_stat(const struct mount *m, inode_id inode)
{
    uint64_t now_ms = uv_now(m->client->loop);

    for (unsigned i = 1; i <= LOOKED_UP_MAX; i++) { /* The last one first. */
        const struct looked_up *slot =
            &m->looked_up[(m->looked_up_next + LOOKED_UP_MAX - i) % LOOKED_UP_MAX];

        if (slot->inode == inode && now_ms - slot->at_ms <= LOOKED_UP_MS) {
            return &slot->st;
        }
    }
    return NULL;
}

/* 0: at no time. */
static uint64_t until_ms(const struct mount *m, double seconds)
{
    return seconds > 0 ? client_present_ms(m->client) + (uint64_t)(seconds * 1000) : 0;
}

void mount_name_moved(struct mount *m, inode_id parent, const char *name, inode_id inode)
{
    bool kept = m->drops_names && client_lease(m->client, parent) != LEASE_NONE;

    kernel_names_moved(m->names, parent, name, inode, client_present_ms(m->client),
                       until_ms(m, kept ? lease_seconds(m) : 0));
}

void mount_learn_name(struct mount *m, inode_id parent, const char *name, inode_id inode,
                      bool known)
{
    if (!known) {
        meta_cache_learn_name(m->client->cache, parent, name, inode);
        return;
    }
    meta_cache_forget_name(m->client->cache, parent, name);
    kernel_names_gone(m->names, parent, name);
    if (m->drops_names) {
        mount_drop_names(m);
    }
}

void mount_entry(struct mount *m, inode_id parent, const char *name, const Morsel__Attr *attr,
                 struct fuse_entry_param *entry)
{
    struct file *file = file_find(m->client, attr->inode);
    Morsel__Attr now = *attr;

    meta_cache_overlay(m->client->cache, &now);
    if (file != NULL) {
        file_overlay(file, &now);
    }
    memset(entry, 0, sizeof(*entry));
    entry->ino = now.inode;
    mount_stat(&now, &entry->attr);
    if (file != NULL) {
        mount_note_told(file, &entry->attr);
        file_note_kernel_changed(file);
    }
    entry->attr_timeout = mount_attr_seconds(m, &now);
    kernel_known_entry(meta_cache_kernel(m->client->cache, now.inode), uv_hrtime(),
                       entry->attr_timeout > 0);
    if (m->drops_names && parent != INODE_NONE && client_lease(m->client, parent) != LEASE_NONE) {
        entry->entry_timeout = lease_seconds(m);
        mount_note_names(m, parent);
    }
    if (parent != INODE_NONE) {
        kernel_names_told(m->names, parent, name, now.inode, client_present_ms(m->client),
                          until_ms(m, entry->entry_timeout));
    }
}

/* ---- The session ---- */

static void on_init(void *data, struct fuse_conn_info *conn)
{
    static const unsigned wanted =
        FUSE_CAP_ASYNC_READ | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_POSIX_ACL | FUSE_CAP_DONT_MASK |
        FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_CACHE_SYMLINKS |
        FUSE_CAP_EXPORT_SUPPORT | FUSE_CAP_ASYNC_DIO | FUSE_CAP_IOCTL_DIR | FUSE_CAP_POSIX_LOCKS |
        FUSE_CAP_FLOCK_LOCKS | FUSE_CAP_AUTO_INVAL_DATA; /* kernel_view.h lives on it. */

    (void)data;
    conn->want = conn->capable & wanted;
    conn->max_write = MOUNT_REQUEST_BYTES_MAX;
    conn->max_read = MOUNT_REQUEST_BYTES_MAX;
    conn->max_readahead = MOUNT_REQUEST_BYTES_MAX;
    conn->max_background = 128;
    conn->congestion_threshold = 96;
    conn->time_gran = 1;
}

static void on_forget(fuse_req_t req, fuse_ino_t ino, uint64_t count)
{
    struct mount *m = fuse_req_userdata(req);

    kernel_known_forgot(meta_cache_kernel(m->client->cache, ino), count);
    fuse_reply_none(req);
}

static void on_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
    struct mount *m = fuse_req_userdata(req);

    for (size_t i = 0; i < count; i++) {
        kernel_known_forgot(meta_cache_kernel(m->client->cache, forgets[i].ino),
                            forgets[i].nlookup);
    }
    fuse_reply_none(req);
}

void mount_operations(struct fuse_lowlevel_ops *ops)
{
    memset(ops, 0, sizeof(*ops));
    ops->init = on_init;
    ops->forget = on_forget;
    ops->forget_multi = on_forget_multi;
    mount_name_operations(ops);
    mount_attr_operations(ops);
    mount_setattr_operations(ops);
    mount_extent_operations(ops);
    mount_copy_operations(ops);
    mount_open_operations(ops);
    mount_file_operations(ops);
    mount_dir_operations(ops);
    mount_xattr_operations(ops);
    mount_lock_operations(ops);
    mount_exchange_operations(ops);
}

/* A request's data may have been taken over (a large WRITE): then the next one gets another buffer.
 */
static bool renew_receive(struct mount *m)
{
    if (m->receive != NULL && m->receive->references == 1) {
        return true;
    }
    payload_drop(m->receive);
    m->receive = payload_new(rpc_payloads(m->client->rpc), MOUNT_REQUEST_BYTES_MAX + BLOCK_BYTES);
    return m->receive != NULL;
}

/* The next request. With the first of an iteration answered and nothing under way, whoever asked will
 * most likely ask again within microseconds (open, stat, close ...): looking for that is cheaper
 * than going to sleep and being woken. Where that did not help lately, it is tried rarely. */
static int receive(struct mount *m, struct fuse_buf *buf, bool first)
{
    uint64_t until_ns;
    int rv = fuse_session_receive_buf(m->session, buf);

    if (rv != -EAGAIN || first || m->ops_count > 0) {
        return rv;
    }
    if (m->looks_skipped < m->looks_vain) {
        m->looks_skipped++;
        return rv;
    }
    m->looks_skipped = 0;
    until_ns = uv_hrtime() + LOOK_NS;
    do {
        rv = fuse_session_receive_buf(m->session, buf);
    } while (rv == -EAGAIN && uv_hrtime() < until_ns);
    if (rv != -EAGAIN) {
        m->looks_vain /= 2;
    } else if (m->looks_vain < LOOKS_VAIN_MAX) {
        m->looks_vain = 2 * m->looks_vain + 1;
    }
    return rv;
}

static void on_readable(uv_poll_t *poll, int status, int events);

/* The device can always be written to: so on_readable() runs soon, and reads until there is nothing
 * more. */
void mount_catch_up(void *mount, struct kernel_wait *wait)
{
    struct mount *m = mount;

    if (!m->mounted) {
        wait->done(wait);
        return;
    }
    list_push_back(&m->catching_up, &wait->node);
    (void)uv_poll_start(&m->poll, UV_READABLE | UV_WRITABLE, on_readable);
}

static void end_catching_up(struct mount *m, bool released)
{
    struct list ended, *node;

    list_init(&ended); /* Whoever is done may wait again. */
    LIST_FOREACH_SAFE(next, &m->catching_up)
    {
        if (released || !LIST_ENTRY(next, struct kernel_wait, node)->released) {
            list_remove(next);
            list_push_back(&ended, next);
        }
    }
    while ((node = list_pop_front(&ended)) != NULL) {
        struct kernel_wait *wait = LIST_ENTRY(node, struct kernel_wait, node);

        wait->done(wait);
    }
}

/* The device is empty. */
static void caught_up(struct mount *m)
{
    if (!list_empty(&m->catching_up)) {
        (void)uv_poll_start(&m->poll, UV_READABLE, on_readable);
        end_catching_up(m, m->releasing == 0 && m->kept_count == 0);
    }
}

void mount_release_ended(struct mount *m)
{
    CHECK(m->releasing > 0);
    m->releasing--;
    if (m->releasing == 0 && !list_empty(&m->catching_up) && m->mounted) {
        (void)uv_poll_start(&m->poll, UV_READABLE | UV_WRITABLE, on_readable);
    }
}

void mount_read_on(struct mount *m)
{
    if (m->mounted) {
        (void)uv_poll_start(&m->poll, UV_READABLE | (list_empty(&m->catching_up) ? 0 : UV_WRITABLE),
                            on_readable);
    }
}

void mount_process(struct mount *m, const struct fuse_buf *buf)
{
    m->asked = mount_inode_of(buf);
    if (!mount_take_tmpfile(m, buf)) {
        fuse_session_process_buf(m->session, buf);
    }
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct mount *m = poll->data;

    (void)events;
    for (unsigned i = 0; status == 0 && i < MOUNT_REQUESTS_PER_ITERATION; i++) {
        struct fuse_buf buf = { .size = 0 };
        int rv;

        if (m->kept_count == MOUNT_KEPT_MAX) {
            (void)uv_poll_stop(&m->poll); /* mount_read_on() */
            return;
        }
        if (!renew_receive(m)) {
            return; /* The poll handle fires again. */
        }
        buf.mem = m->receive->data;
        rv = receive(m, &buf, i == 0);
        if (rv == -EAGAIN) {
            caught_up(m);
        }
        if (rv == -EINTR || rv == -EAGAIN) {
            return;
        }
        if (rv <= 0) {
            break;
        }
        if (!mount_keep(m, &buf)) {
            mount_process(m, &buf);
        }
        if (fuse_session_exited(m->session)) {
            break;
        }
    }
    if (status != 0 || fuse_session_exited(m->session)) {
        (void)uv_poll_stop(&m->poll);
        m->mounted = false;
        end_catching_up(m, true);
        m->ended(m->data);
    }
}

/* At most one: what waited behind it begins at once. */
static void give_up_late(struct mount *m)
{
    uint64_t now = uv_now(m->client->loop);

    LIST_FOREACH(node, &m->ops)
    {
        struct mount_op *op = LIST_ENTRY(node, struct mount_op, node);

        if (op->give_up != NULL && now >= op->give_up_ms) {
            void (*give_up)(struct mount_op * op) = op->give_up;

            op->give_up = NULL;
            give_up(op);
            return;
        }
    }
}

static void on_interrupts(uv_timer_t *timer)
{
    struct mount *m = timer->data;
    uint64_t now = uv_now(m->client->loop);

    LIST_FOREACH_SAFE(node, &m->ops)
    {
        struct mount_op *op = LIST_ENTRY(node, struct mount_op, node);

        if (op->interrupted_ms != 0 && now >= op->interrupted_ms + MOUNT_INTERRUPT_MS) {
            op->interrupted_ms = 0;
            if (op->cancel != NULL) {
                op->cancel(op);
            } else {
                mount_op_cancel_asking(op);
            }
        }
    }
    give_up_late(m);
}

int mount_start(struct mount *m, struct client *client, struct fuse_session *session,
                void (*ended)(void *data), void *data)
{
    const struct client_kernel kernel = { .drop = mount_kernel_drop,
                                          .catch_up = mount_catch_up,
                                          .dir_lost = mount_dir_lost,
                                          .pause = mount_pause,
                                          .data = m };
    int rv;

    m->client = client;
    m->session = session;
    m->ended = ended;
    m->data = data;
    m->mounted = true;
    list_init(&m->ops);
    list_init(&m->dirs);
    list_init(&m->catching_up);
    list_init(&m->drops);
    list_init(&m->drops_again);
    list_init(&m->behind_truncations);
    list_init(&m->awaited);
    mount_holds_start(m);
    mount_exchanges_start(m);
    mount_pauses_start(m);
    if ((m->names = kernel_names_new()) == NULL) {
        return UV_ENOMEM;
    }
    m->unreadable = mmap(NULL, BLOCK_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m->unreadable == MAP_FAILED) {
        return UV_ENOMEM;
    }
    m->drops_names = mount_kernel_has(m, MOUNT_KERNEL(6, 16)) && mount_probe_drops_names(session);
    kernel_attach(client, &kernel);
    rv = uv_poll_init(client->loop, &m->poll, fuse_session_fd(session));
    if (rv != 0) {
        return rv;
    }
    m->poll.data = m->interrupts.data = m->drop_retry.data = m->late.data = m;
    (void)uv_timer_init(client->loop, &m->drop_retry);
    (void)uv_timer_init(client->loop, &m->late);
    (void)uv_timer_init(client->loop, &m->interrupts);
    (void)uv_timer_start(&m->interrupts, on_interrupts, MOUNT_INTERRUPT_MS / 4,
                         MOUNT_INTERRUPT_MS / 4);
    return uv_poll_start(&m->poll, UV_READABLE, on_readable);
}

bool mount_awaits_manager(const struct mount *m)
{
    return m->ops_count == 1 && !list_empty(&m->ops) &&
           rpc_call_active(&LIST_ENTRY(list_front(&m->ops), struct mount_op, node)->call.rpc);
}

void mount_free(struct mount *m)
{
    kernel_names_free(m->names);
}

void mount_stop(struct mount *m)
{
    (void)uv_poll_stop(&m->poll);
    uv_close((uv_handle_t *)&m->poll, NULL);
    uv_close((uv_handle_t *)&m->interrupts, NULL);
    uv_close((uv_handle_t *)&m->drop_retry, NULL);
    mount_await_nobody(m);
    mount_exchanges_stop(m);
    mount_pauses_stop(m);
    mount_holds_stop(m);
    uv_close((uv_handle_t *)&m->late, NULL);
    mount_drops_end(m);
    payload_drop(m->receive);
    m->receive = NULL;
    (void)munmap(m->unreadable, BLOCK_BYTES);
}
