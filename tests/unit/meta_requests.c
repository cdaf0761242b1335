/* The manager's requests: the table that says what each is, and the driver that takes them through
 * their steps (src/meta/service/request_uv.h). */
#include "common/base/check.h"
#include "common/base/status.h"
#include "meta/service/request_uv.h"
#include "tests/lib/sets.h"

#include <stdlib.h>
#include <string.h>

/* ---- The table ---- */

/* Asked of storage servers, said by the manager itself, or of the connection: the others are its
 * requests. */
static bool is_ours(enum message_type type)
{
    return type == MSG_STATISTICS ||
           (type >= MSG_SESSION && type != MSG_RECALL && type != MSG_LOCK_REVOKE &&
            type != MSG_HELD_UP && type != MSG_LOCK_CHECK && type != MSG_SPACE_WANTED &&
            type != MSG_VOTES_READ && type != MSG_VOTES_CARRY && type != MSG_GROUP_WORDS &&
            type != MSG_MIRROR_LEASE && type != MSG_REPLICA && type != MSG_HAND_ON &&
            type != MSG_DONOR_WANTED && type != MSG_DONOR_FETCH && type != MSG_DONOR_CHECK &&
            type != MSG_DONATE);
}

/* Whom the manager knows by nothing but a connection gets no further than this. */
static bool is_for_anybody(enum message_type type)
{
    switch (type) {
    case MSG_SESSION:
    case MSG_MEMBERS:
    case MSG_REGISTER:
    case MSG_HEARTBEAT:
    case MSG_DONOR_JOIN:
    case MSG_DONOR_REPORT:
    case MSG_DONOR_FETCHED:
    case MSG_DONOR_CHECKED:
    case MSG_DONOR_TRUST:
    case MSG_DONOR_LIST:
    case MSG_DONOR_HELD:
    case MSG_DONOR_FORGET:
    case MSG_SET_LIST:
    case MSG_VOTE:
    case MSG_PROBE:
    case MSG_STATUS:
    case MSG_STATISTICS:
    case MSG_FSCK:
    case MSG_FSCK_OBJECTS:
    case MSG_RECOVER:
    case MSG_WRITERS:
        return true;
    default:
        return false;
    }
}

static const ProtobufCFieldDescriptor *field(const struct request_row *row, const char *name)
{
    return protobuf_c_message_descriptor_get_field_by_name(row->message, name);
}

static void assert_part(const struct request_row *row, const char *name, uint16_t at,
                        const ProtobufCMessageDescriptor *type)
{
    const ProtobufCFieldDescriptor *f = field(row, name);

    assert_int_equal(at, f == NULL ? 0 : f->offset);
    assert_true(f == NULL || f->descriptor == type);
}

static void assert_inode_at(const struct request_row *row, uint16_t at)
{
    for (unsigned i = 0; i < row->message->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &row->message->fields[i];

        if (f->offset == at) {
            assert_int_equal(f->type, PROTOBUF_C_TYPE_UINT64);
            assert_int_equal(f->label, PROTOBUF_C_LABEL_NONE);
            return;
        }
    }
    fail_msg("%s has no field at %u", row->message->name, at);
}

static void assert_row(const struct request_row *row)
{
    bool changes = row->record != NULL;

    if (row->own != NULL) {
        assert_true(row->message == NULL && row->look == NULL && row->serve == NULL && !changes);
        return;
    }
    assert_non_null(row->message);
    assert_true(row->serve != NULL || changes);
    assert_true(!changes || row->serve == NULL || row->look != NULL); /* Who else would choose? */
    assert_true(changes == (row->reply != NULL));
    assert_true(changes == (row->kind != 0));
    if (changes) {
        assert_part(row, "op", row->op_at, &morsel__op_id__descriptor);
        assert_int_not_equal(row->op_at, 0);
        assert_part(row, "who", row->who_at, &morsel__credentials__descriptor);
    }
    for (unsigned i = 0; i < REQUEST_TOUCHES_MAX && row->touches_at[i] != 0; i++) {
        assert_inode_at(row, row->touches_at[i]);
        assert_int_equal(row->access, changes ? ACCESS_CHANGE : ACCESS_READ);
    }
}

static void each_request_has_one_row_and_it_fits_its_message(void **state)
{
#define X(name, wire, words) name,
    static const enum message_type types[] = { MESSAGE_MAP(X) };
#undef X
    bool seen[MESSAGE_TYPES_MAX] = { false };

    (void)state;
    for (unsigned i = 0; i < ARRAY_COUNT(types); i++) {
        const struct request_row *row = request_row(types[i]);

        seen[types[i]] = true;
        if (!is_ours(types[i])) {
            assert_null(row);
            continue;
        }
        assert_non_null(row);
        assert_row(row);
        assert_int_equal(row->anybody, is_for_anybody(types[i]));
        for (unsigned j = 0; j < i; j++) {
            const struct request_row *other = request_row(types[j]);

            assert_true(other == NULL || row->message == NULL || row->message != other->message ||
                        types[i] == MSG_DONOR_CHECKED); /* It says what FETCHED says. */
            assert_true(other == NULL || row->own == NULL || row->own != other->own);
        }
    }
    for (unsigned type = 0; type < MESSAGE_TYPES_MAX; type++) {
        assert_true(seen[type] || request_row(type) == NULL);
    }
    assert_null(request_row(MESSAGE_TYPES_MAX));
    assert_null(request_row(UINT32_MAX));
}

/* ---- Clients that cache ---- */

static void return_one(struct client *c, const Morsel__Recall *recall)
{
    Morsel__ReturnRequest request = MORSEL__RETURN_REQUEST__INIT;
    Morsel__Return one = MORSEL__RETURN__INIT, *list[] = { &one };

    one.recall = recall->recall;
    one.inode = recall->inode;
    one.keeps = recall->keep;
    request.n_returns = 1;
    request.returns = list;
    assert_int_equal(call(c, MSG_RETURN, &request.base, NULL, NULL), 0);
}

enum { RECALLS_MAX = 8 };

/* A client that is asked to give back, and does when the test says so. */
struct holder
{
    struct client client;
    Morsel__Recall recalled[RECALLS_MAX];
    unsigned count;
};

static void on_push(void *data, enum message_type type, const uint8_t *body, size_t body_count)
{
    struct holder *h = data;
    Morsel__RecallNotice *notice;

    assert_int_equal(type, MSG_RECALL);
    notice = rpc_unpack(&morsel__recall_notice__descriptor, body, body_count);
    assert_non_null(notice);
    for (size_t i = 0; i < notice->n_recalls; i++) {
        assert_true(h->count < RECALLS_MAX);
        h->recalled[h->count++] = *notice->recalls[i];
    }
    morsel__recall_notice__free_unpacked(notice, NULL);
}

static void holder_join(struct holder *h, struct fixture *f, uint64_t id)
{
    client_open(&h->client, f, ROLE_CLIENT, id);
    h->count = 0;
    h->client.caches = true;
    rpc_peer_watch(h->client.peer, NULL, NULL, h);
    rpc_peer_on_push(h->client.peer, on_push);
    assert_int_equal(ask_session(&h->client), 0);
}

/* Grants begin when the manager's disk has the record of the client: ask until then. */
static void lookup_until_leased(struct client *c, const char *name)
{
    enum lease_mode lease = LEASE_NONE;

    while (lease == LEASE_NONE) {
        assert_int_equal(lookup(c, name, &lease), 0);
    }
}

static void give_back(struct holder *h)
{
    while (h->count > 0) {
        h->count--;
        return_one(&h->client, &h->recalled[h->count]);
    }
}

/* ---- Changes, one of each kind ---- */

/* Messages of all changes, about a directory with two files, `f` and `g`. */
struct changes
{
    Morsel__OpId op;
    Morsel__Policy values;
    Morsel__CreateRequest make;
    Morsel__LinkRequest link;
    Morsel__UnlinkRequest unlink;
    Morsel__RenameRequest rename;
    Morsel__SetattrRequest setattr;
    Morsel__SetLayoutRequest set_layout;
    Morsel__ExchangeRequest exchange;
    Morsel__SizeReportRequest size_report;
    Morsel__SyncedRequest synced;
    Morsel__XattrSetRequest xattr;
    Morsel__PolicyRequest policy;
    Morsel__SetStoredRequest set_stored;
    Morsel__SetSealRequest set_seal;
};

static void changes_init(struct changes *m, inode_id dir, inode_id f, inode_id g)
{
    *m = (struct changes){ MORSEL__OP_ID__INIT,
                           MORSEL__POLICY__INIT,
                           MORSEL__CREATE_REQUEST__INIT,
                           MORSEL__LINK_REQUEST__INIT,
                           MORSEL__UNLINK_REQUEST__INIT,
                           MORSEL__RENAME_REQUEST__INIT,
                           MORSEL__SETATTR_REQUEST__INIT,
                           MORSEL__SET_LAYOUT_REQUEST__INIT,
                           MORSEL__EXCHANGE_REQUEST__INIT,
                           MORSEL__SIZE_REPORT_REQUEST__INIT,
                           MORSEL__SYNCED_REQUEST__INIT,
                           MORSEL__XATTR_SET_REQUEST__INIT,
                           MORSEL__POLICY_REQUEST__INIT,
                           MORSEL__SET_STORED_REQUEST__INIT,
                           MORSEL__SET_SEAL_REQUEST__INIT };
    m->make.op = m->link.op = m->unlink.op = m->rename.op = m->setattr.op = m->set_layout.op =
        &m->op;
    m->set_stored.op = m->set_seal.op = &m->op;
    m->size_report.op = m->synced.op = m->xattr.op = m->policy.op = m->exchange.op = &m->op;
    m->make.parent = m->link.new_parent = m->unlink.parent = dir;
    m->rename.parent = m->rename.new_parent = m->policy.inode = dir;
    m->link.inode = m->setattr.inode = m->set_layout.inode = m->size_report.inode = f;
    m->synced.inode = m->xattr.inode = m->exchange.inode = f;
    m->set_layout.like = g;
    m->make.name = m->unlink.name = bytes("made");
    m->make.mode = 0040755;
    m->unlink.directory = true;
    m->link.new_name = m->rename.name = bytes("linked");
    m->rename.new_name = bytes("renamed");
    m->setattr.valid = SETATTR_MODE;
    m->setattr.mode = 0600;
    m->size_report.size = 100;
    m->xattr.name = bytes("user.name");
    m->xattr.value = bytes("value");
    m->values.width = 2;
    m->policy.set = true;
    m->policy.policy = &m->values;
}

/* A file without a name, open for writing. */
static inode_id make_copy(struct client *c, inode_id parent)
{
    Morsel__CreateRequest request = MORSEL__CREATE_REQUEST__INIT;
    Morsel__OpId op = next_op(c);
    Morsel__Node *node;
    inode_id inode;

    request.op = &op;
    request.parent = parent;
    request.mode = 0100600;
    request.open = request.orphan = true;
    assert_int_equal(call(c, MSG_CREATE, &request.base, &morsel__node__descriptor, &node), 0);
    inode = node->attr->inode;
    protobuf_c_message_free_unpacked(&node->base, NULL);
    return inode;
}

static uint64_t sequence_of(const struct fixture *f)
{
    return ns_counters(f->meta->ns)->sequence;
}

/* Does the answer say so, that the change had been carried out before? */
static bool says_known(struct client *c, enum message_type type, const ProtobufCMessage *request)
{
    bool removes = type == MSG_UNLINK || type == MSG_RENAME, known;
    Morsel__Removed *removed = NULL;
    Morsel__Node *node = NULL;

    if (removes) {
        assert_int_equal(call(c, type, request, &morsel__removed__descriptor, &removed), 0);
        known = removed->known;
        morsel__removed__free_unpacked(removed, NULL);
    } else {
        assert_int_equal(call(c, type, request, &morsel__node__descriptor, &node), 0);
        known = node->known;
        morsel__node__free_unpacked(node, NULL);
    }
    return known;
}

static bool is_of_names(enum message_type type)
{
    return type == MSG_CREATE || type == MSG_LINK || type == MSG_UNLINK || type == MSG_RENAME;
}

static void a_repeat_of_any_change_is_answered_without_executing_it(void **state)
{
    struct fixture *f = *state;
    struct changes m;
    const struct
    {
        enum message_type type;
        const ProtobufCMessage *message;
    } all[] = {
        { MSG_SET_LAYOUT, &m.set_layout.base },
        { MSG_EXCHANGE, &m.exchange.base },
        { MSG_CREATE, &m.make.base },
        { MSG_UNLINK, &m.unlink.base },
        { MSG_LINK, &m.link.base },
        { MSG_RENAME, &m.rename.base },
        { MSG_SETATTR, &m.setattr.base },
        { MSG_SIZE_REPORT, &m.size_report.base },
        { MSG_SYNCED, &m.synced.base },
        { MSG_XATTR_SET, &m.xattr.base },
        { MSG_POLICY, &m.policy.base },
        { MSG_SET_STORED, &m.set_stored.base },
        { MSG_SET_SEAL, &m.set_seal.base },
    };
    inode_id copy;
    unsigned kinds = 0;
    struct holder a;
    struct client iod;
    inode_id dir, files[2];

    client_open(&iod, f, ROLE_IOD, 0);
    (void)register_server(&iod, 1);
    holder_join(&a, f, 61);
    dir = make(&a.client, INODE_ROOT, "d", 0040755, false);
    lookup_until_leased(&a.client, "d");
    files[0] = make(&a.client, dir, "f", 0100644, true);
    files[1] = make(&a.client, dir, "g", 0100644, false);
    copy = make_copy(&a.client, dir);
    changes_init(&m, dir, files[0], files[1]);
    m.exchange.with = copy;
    sets_policy(&a.client, INODE_ROOT, 1);
    m.set_stored.inode = m.set_stored.set = make(&a.client, INODE_ROOT, "set", 0100644, true);
    m.set_seal.inode = m.set_seal.set = m.set_stored.inode;
    for (unsigned i = 0; i < ARRAY_COUNT(all); i++) {
        uint64_t before = sequence_of(f);

        m.op = next_op(&a.client);
        for (unsigned repeat = 0; repeat < 2; repeat++) {
            if (is_of_names(all[i].type)) { /* Others may have changed the names since. */
                assert_int_equal(says_known(&a.client, all[i].type, all[i].message), repeat);
            } else {
                assert_int_equal(call(&a.client, all[i].type, all[i].message, NULL, NULL), 0);
            }
            assert_int_equal(sequence_of(f), before + 1);
        }
    }
    for (unsigned type = 0; type < MESSAGE_TYPES_MAX; type++) {
        const struct request_row *row = request_row(type);

        kinds += row != NULL && row->record != NULL;
    }
    assert_int_equal(kinds, ARRAY_COUNT(all)); /* One of each. */
    client_close(&a.client);
    client_close(&iod);
}

/* ---- Another try ---- */

/* Ask for a change that leases of `a` are in the way of, give them back, and see it done, once. */
static void wait_and_change(struct holder *a, struct client *b, enum message_type type,
                            const ProtobufCMessage *message)
{
    struct fixture *f = b->f;
    uint64_t before = sequence_of(f);
    struct waiting_call change;

    start(b, &change, type, message);
    while (a->count == 0 && !change.done) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    assert_false(change.done);
    assert_int_equal(sequence_of(f), before);
    while (!change.done) {
        give_back(a);
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    assert_int_equal(change.status, 0);
    assert_int_equal(sequence_of(f), before + 1);
    assert_int_equal(call(b, type, message, NULL, NULL), 0);
    assert_int_equal(sequence_of(f), before + 1);
}

static void a_change_that_waited_for_leases_takes_effect_once(void **state)
{
    struct fixture *f = *state;
    struct changes m;
    struct holder a;
    struct client b;
    inode_id d1, d2;

    holder_join(&a, f, 71);
    client_join(&b, f, 72);
    d1 = make(&b, INODE_ROOT, "d1", 0040755, false);
    d2 = make(&b, INODE_ROOT, "d2", 0040755, false);
    (void)make(&b, INODE_ROOT, "d3", 0040755, false);
    (void)make(&b, INODE_ROOT, "d4", 0040755, false);
    lookup_until_leased(&a.client, "d1");
    lookup_until_leased(&a.client, "d2");
    lookup_until_leased(&a.client, "d3");
    lookup_until_leased(&a.client, "d4");
    changes_init(&m, d1, d2, 0);
    m.op = next_op(&b);
    wait_and_change(&a, &b, MSG_CREATE, &m.make.base);
    m.op = next_op(&b);
    wait_and_change(&a, &b, MSG_SETATTR, &m.setattr.base);
    m.op = next_op(&b);
    m.unlink.parent = m.rename.parent = m.rename.new_parent = INODE_ROOT;
    m.unlink.name = bytes("d3");
    wait_and_change(&a, &b, MSG_UNLINK, &m.unlink.base);
    m.op = next_op(&b);
    m.rename.name = bytes("d4");
    wait_and_change(&a, &b, MSG_RENAME, &m.rename.base);
    client_close(&b);
    client_close(&a.client);
}

/* While it waits, the holder puts something else under the name. */
static void what_was_looked_up_before_waiting_is_looked_up_again(void **state)
{
    Morsel__UnlinkRequest unlink = MORSEL__UNLINK_REQUEST__INIT;
    struct fixture *f = *state;
    struct waiting_call removal;
    Morsel__Removed *removed;
    struct changes m;
    struct holder a;
    struct client b;
    Morsel__OpId op;
    inode_id old, new;

    holder_join(&a, f, 81);
    client_join(&b, f, 82);
    old = make(&b, INODE_ROOT, "d", 0040755, false);
    new = make(&b, INODE_ROOT, "new", 0040755, false);
    lookup_until_leased(&a.client, "d");
    op = next_op(&b);
    unlink.op = &op;
    unlink.parent = INODE_ROOT;
    unlink.name = bytes("d");
    unlink.directory = true;
    start(&b, &removal, MSG_UNLINK, &unlink.base);
    removal.reply_type = &morsel__removed__descriptor;
    while (a.count == 0 && !removal.done) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    assert_false(removal.done);
    changes_init(&m, INODE_ROOT, 0, 0);
    m.op = next_op(&a.client);
    m.rename.name = bytes("new");
    m.rename.new_name = bytes("d");
    assert_int_equal(call(&a.client, MSG_RENAME, &m.rename.base, NULL, NULL), 0);
    while (!removal.done) {
        give_back(&a);
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    assert_int_equal(removal.status, 0);
    removed = removal.reply;
    assert_int_not_equal(removed->inode, old);
    assert_int_equal(removed->inode, new);
    assert_non_null(removed->attr); /* Of the one that is gone. */
    assert_int_equal(removed->attr->inode, new);
    morsel__removed__free_unpacked(removed, NULL);
    client_close(&b);
    client_close(&a.client);
}

static void a_change_that_was_refused_may_be_asked_for_again(void **state)
{
    struct fixture *f = *state;
    struct client c, iod;
    inode_id inode = 0, again = 0;
    uint64_t before;
    Morsel__OpId op;

    client_open(&iod, f, ROLE_IOD, 0);
    client_join(&c, f, 91);
    before = sequence_of(f);
    op = next_op(&c);
    assert_int_equal(make_with(&c, op, INODE_ROOT, "f", 0100644, true, &inode), MORSEL_NO_SERVERS);
    assert_int_equal(sequence_of(f), before);
    assert_int_equal(session_opens(f->meta->sessions), 0);
    (void)register_server(&iod, 1);
    assert_int_equal(make_with(&c, op, INODE_ROOT, "f", 0100644, true, &inode), 0);
    assert_int_equal(make_with(&c, op, INODE_ROOT, "f", 0100644, true, &again), 0);
    assert_int_equal(inode, again);
    assert_int_equal(session_opens(f->meta->sessions), 1);
    client_close(&c);
    client_close(&iod);
}

/* The yes of a sync speaks of a file that is there: one that is unlinked and still open is, one that
 * the manager does not know (any more) is not. */
static void a_file_that_is_gone_is_not_synced(void **state)
{
    Morsel__FsyncRequest fsync = MORSEL__FSYNC_REQUEST__INIT;
    Morsel__UnlinkRequest unlink = MORSEL__UNLINK_REQUEST__INIT;
    struct fixture *f = *state;
    struct client c;
    Morsel__OpId op;

    client_join(&c, f, 92);
    assert_int_equal(call(&c, MSG_FSYNC, &fsync.base, NULL, NULL), 0); /* Of a directory. */
    fsync.inode = make(&c, INODE_ROOT, "kept", 0010644, true);
    assert_int_equal(call(&c, MSG_FSYNC, &fsync.base, NULL, NULL), 0);
    op = next_op(&c);
    unlink.op = &op;
    unlink.parent = INODE_ROOT;
    unlink.name = bytes("kept");
    assert_int_equal(call(&c, MSG_UNLINK, &unlink.base, NULL, NULL), 0);
    assert_int_equal(call(&c, MSG_FSYNC, &fsync.base, NULL, NULL), 0);
    fsync.inode = make(&c, INODE_ROOT, "gone", 0010644, false);
    op = next_op(&c);
    unlink.name = bytes("gone");
    assert_int_equal(call(&c, MSG_UNLINK, &unlink.base, NULL, NULL), 0);
    assert_int_equal(call(&c, MSG_FSYNC, &fsync.base, NULL, NULL), MORSEL_STALE);
    client_close(&c);
}

static int ask_exchange(struct client *c, inode_id inode, inode_id with, uint32_t uid)
{
    Morsel__ExchangeRequest request = MORSEL__EXCHANGE_REQUEST__INIT;
    Morsel__Credentials who = MORSEL__CREDENTIALS__INIT;
    Morsel__OpId op = next_op(c);

    who.uid = uid;
    who.groups_known = true;
    request.op = &op;
    request.inode = inode;
    request.with = with;
    request.who = &who;
    return call(c, MSG_EXCHANGE, &request.base, NULL, NULL);
}

/* Only who holds a lease on the file, and the other one alone, knows that nobody has written; and the bytes of one file
 * become those of another. */
static void files_exchange_for_who_holds_and_owns_both(void **state)
{
    struct fixture *f = *state;
    struct client iod;
    struct holder a;
    inode_id held, copy;

    client_open(&iod, f, ROLE_IOD, 0);
    (void)register_server(&iod, 1);
    holder_join(&a, f, 62);
    (void)make(&a.client, INODE_ROOT, "d", 0040755, false);
    lookup_until_leased(&a.client, "d"); /* Its lease epoch is on the disk. */
    held = make(&a.client, INODE_ROOT, "held", 0100644, true);
    copy = make_copy(&a.client, INODE_ROOT);
    assert_int_equal(ask_exchange(&a.client, INODE_ROOT, copy, 0), MORSEL_INVAL);
    assert_int_equal(ask_exchange(&a.client, held, INODE_ROOT, 0), MORSEL_BUSY); /* Under R. */
    assert_int_equal(ask_exchange(&a.client, 12345, copy, 0), MORSEL_BUSY);
    assert_int_equal(ask_exchange(&a.client, held, copy, 5), MORSEL_PERM);
    assert_int_equal(ask_exchange(&a.client, held, copy, 0), 0);
    client_close(&a.client);
    client_close(&iod);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_request_has_one_row_and_it_fits_its_message),
        TEST(a_repeat_of_any_change_is_answered_without_executing_it),
        TEST(a_change_that_waited_for_leases_takes_effect_once),
        TEST(what_was_looked_up_before_waiting_is_looked_up_again),
        TEST(a_change_that_was_refused_may_be_asked_for_again),
        TEST(a_file_that_is_gone_is_not_synced),
        TEST(files_exchange_for_who_holds_and_owns_both),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
