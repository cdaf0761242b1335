/* A table of servers by id; each is watched until it has been silent for too long. */
#include "meta/cluster/members.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "meta/cluster/placement.h"

#include <stdlib.h>
#include <string.h>

static void emit(struct members_actions *out, struct members_action action)
{
    CHECK(out->count < MEMBERS_ACTIONS_MAX);
    out->items[out->count++] = action;
}

static void refuse(struct members_actions *out, uint64_t tag, int status, const char *reason)
{
    emit(out, (struct members_action){
                  .type = MEMBERS_REFUSE, .tag = tag, .status = status, .reason = reason });
}

static void check_invariants(const struct members *m)
{
    CHECK(m->count <= SERVERS_MAX);
    for (uint32_t i = 0; i < m->count; i++) {
        const struct member *item = &m->items[i];

        CHECK(item->record.id != 0);
        CHECK(i == 0 || m->items[i - 1].record.id < item->record.id);
        CHECK_IMPLIES(item->up, item->registered);
    }
}

/* How long its next word may take because it waits for ours: as long as it waits. */
static uint64_t owed_ms(const struct members *m, const struct member *member)
{
    uint64_t patience_ms = (uint64_t)m->heartbeat_ms * 2;

    if (member->owed_tag == 0 || !member->connected) {
        return 0;
    }
    return patience_ms > MEMBERS_ANSWER_MS ? patience_ms : MEMBERS_ANSWER_MS;
}

static uint64_t silence_due_ms(const struct members *m, const struct member *member)
{
    return member->heard_ms + owed_ms(m, member) + (uint64_t)m->heartbeat_ms * MEMBERS_MISSED_MAX;
}

/* What is heard does not move it: it is looked for again when it comes. */
static void watch(struct members *m, const struct member *member)
{
    uint64_t due_ms = silence_due_ms(m, member);

    m->due_ms = due_ms < m->due_ms ? due_ms : m->due_ms;
}

void members_init(struct members *m, uint32_t heartbeat_ms, const struct member_record *records,
                  uint32_t count)
{
    CHECK(count <= SERVERS_MAX);
    memset(m, 0, sizeof(*m));
    m->heartbeat_ms = heartbeat_ms;
    m->version = 1;
    m->due_ms = UINT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        m->items[i].record = records[i];
        m->items[i].durable = true;
        m->items[i].bytes_total = records[i].bytes_total;
        m->items[i].bytes_free = records[i].bytes_free;
    }
    m->count = count;
    check_invariants(m);
}

void members_presume(struct members *m, uint64_t now_ms)
{
    for (uint32_t i = 0; i < m->count; i++) {
        if (member_stays(&m->items[i])) {
            m->items[i].presumed = true;
            m->items[i].heard_ms = now_ms;
            watch(m, &m->items[i]);
        }
    }
}

bool member_stays(const struct member *member)
{
    return !member->record.removed;
}

bool member_gets_new(const struct member *member)
{
    return !member->leaves && !member->record.waits;
}

const struct member *members_find(const struct members *m, server_id id)
{
    uint32_t low = 0, high = m->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (m->items[middle].record.id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < m->count && m->items[low].record.id == id ? &m->items[low] : NULL;
}

static struct member *find(struct members *m, server_id id)
{
    return (struct member *)(uintptr_t)members_find(m, id);
}

static struct member *find_token(struct members *m, const uint8_t token[16])
{
    for (uint32_t i = 0; i < m->count; i++) {
        if (memcmp(m->items[i].record.token, token, 16) == 0) {
            return &m->items[i];
        }
    }
    return NULL;
}

/* Make room for a member with `id`, in order. */
static struct member *insert(struct members *m, server_id id)
{
    uint32_t at = m->count;

    while (at > 0 && m->items[at - 1].record.id > id) {
        at--;
    }
    memmove(&m->items[at + 1], &m->items[at], (m->count - at) * sizeof(m->items[0]));
    m->count++;
    memset(&m->items[at], 0, sizeof(m->items[at]));
    m->items[at].record.id = id;
    check_invariants(m);
    return &m->items[at];
}

/* ---- Registration ---- */

/* Behind the highest; where that is the last number of all, the lowest that nobody has. A server
 * never chooses its id: of one that it names and we do not know we have not told it. */
static server_id new_id(const struct members *m)
{
    server_id id = m->count == 0 ? 0 : m->items[m->count - 1].record.id;

    if (id < UINT32_MAX) {
        return id + 1;
    }
    id = 1;
    for (uint32_t i = 0; i < m->count && m->items[i].record.id == id; i++) {
        id++;
    }
    return id;
}

/* A registration that is taken: the marks that the record keeps, and what is answered. */
struct taken
{
    struct starts_known starts;
    struct members_proposal proposal;
    bool over; /* It was let in later than the record knows. */
};

/* Do the marks that are shown fit to those of `record`? Fills `taken`, or refuses. */
static bool admit_marks(const struct member_record *record, const struct members_event *event,
                        struct taken *taken, struct members_actions *out)
{
    const struct starts_word *word = &event->registration.start;
    uint64_t tag = event->registration.tag;

    taken->starts = record->starts;
    taken->proposal.is_one = word->mark != 0 && !word->confirms;
    taken->over = false;
    switch (starts_hear(&taken->starts, word, &taken->proposal.by_pending)) {
    case STARTS_TAKEN_OVER:
        taken->over = true;
        return true;
    case STARTS_TAKEN:
        return true;
    case STARTS_AGAIN:
        refuse(out, tag, MORSEL_AGAIN, "a copy of this data directory registers as well");
        break;
    case STARTS_OLD:
        emit(out, (struct members_action){ .type = MEMBERS_REFUSE,
                                           .tag = tag,
                                           .id = record->id,
                                           .status = MORSEL_LEFT_BEHIND,
                                           .reason = "this data directory is an old copy" });
        break;
    }
    return false;
}

static bool admit_known(const struct member *known, const struct members_event *event,
                        struct taken *taken, struct members_actions *out)
{
    const struct member_record *asked = &event->registration.record;
    uint64_t tag = event->registration.tag;

    if (!member_stays(known)) {
        emit(out, (struct members_action){ .type = MEMBERS_REFUSE,
                                           .tag = tag,
                                           .id = known->record.id,
                                           .status = MORSEL_REMOVED,
                                           .reason = "this server was removed from the cluster" });
        return false;
    }
    if (known->removing) {
        refuse(out, tag, MORSEL_AGAIN, "this server is just being removed from the cluster");
        return false;
    }
    if (asked->id != 0 && asked->id != known->record.id) {
        refuse(out, tag, MORSEL_INVAL,
               "the token of this data directory belongs to another server id; was the "
               "directory put together from two?");
        return false;
    }
    if (!admit_marks(&known->record, event, taken, out)) {
        return false;
    }
    if (known->up && known->connected && strcmp(known->record.address, asked->address) != 0) {
        refuse(out, tag, MORSEL_EXISTS_LOCKED,
               "another process serves this data directory from another address; stop it "
               "first");
        return false;
    }
    return true;
}

/* The member that registers, old or new; NULL after a refusal. */
static struct member *admit(struct members *m, const struct members_event *event,
                            struct taken *taken, struct members_actions *out)
{
    struct member_record record = event->registration.record;
    uint64_t tag = event->registration.tag;
    struct member *known = find_token(m, record.token);

    if (known != NULL) {
        return admit_known(known, event, taken, out) ? known : NULL;
    }
    if (record.id != 0) {
        refuse(out, tag, MORSEL_INVAL,
               find(m, record.id) != NULL
                   ? "this server id belongs to another data directory"
                   : "this cluster has never given the server id of this data directory; was the "
                     "manager's database put back to an older state?");
        return NULL;
    }
    if (m->count == SERVERS_MAX) {
        refuse(out, tag, MORSEL_TOO_LARGE, "the cluster has as many storage servers as it can");
        return NULL;
    }
    record.id = new_id(m);
    record.starts = (struct starts_known){ 0 };
    record.waits = m->manual;
    if (!admit_marks(&record, event, taken, out)) {
        return NULL;
    }
    known = insert(m, record.id);
    known->record = record;
    return known;
}

static void welcome(struct members *m, struct member *member, uint64_t tag,
                    struct members_actions *out)
{
    if (!member->up) {
        m->version++;
        emit(out, (struct members_action){ .type = MEMBERS_UP, .id = member->record.id });
    }
    member->registered = true;
    member->presumed = false;
    member->connected = true;
    member->up = true;
    member->owed_tag = tag;
    watch(m, member);
    emit(out,
         (struct members_action){ .type = MEMBERS_WELCOME, .tag = tag, .id = member->record.id });
}

static void propose(struct member *member, uint64_t tag, struct members_proposal proposal,
                    struct members_actions *out)
{
    emit(out, (struct members_action){ .type = MEMBERS_PROPOSED,
                                       .tag = tag,
                                       .id = member->record.id,
                                       .by_pending = proposal.by_pending });
}

static bool same_record(const struct member_record *a, const struct member_record *b)
{
    return memcmp(a->token, b->token, sizeof(a->token)) == 0 &&
           a->starts.confirmed == b->starts.confirmed &&
           a->starts.tentative == b->starts.tentative && a->starts.count == b->starts.count &&
           strcmp(a->address, b->address) == 0 && strcmp(a->name, b->name) == 0;
}

static void answer_taken(struct members *m, struct member *member, uint64_t tag,
                         struct members_proposal proposal, struct members_actions *out)
{
    if (proposal.is_one) {
        propose(member, tag, proposal, out);
    } else {
        welcome(m, member, tag, out);
    }
}

/* Who has only proposed may be a copy: of what clients are told about the server nothing changes. */
static void on_register(struct members *m, const struct members_event *event,
                        struct members_actions *out)
{
    const struct member_record *asked = &event->registration.record;
    struct taken taken;
    struct member *member = admit(m, event, &taken, out);
    struct member_record record;

    if (member == NULL) {
        return;
    }
    if (member->persisting > 0) {
        refuse(out, member->pending_tag, MORSEL_AGAIN, "registered again meanwhile");
    }
    if (taken.over) {
        emit(out, (struct members_action){ .type = MEMBERS_PUT_BACK, .id = member->record.id });
    }
    record = taken.proposal.is_one ? member->record : *asked;
    record.id = member->record.id;
    record.waits = member->record.waits;
    record.starts = taken.starts;
    if (!taken.proposal.is_one) {
        member->heard_ms = event->now_ms;
        member->bytes_total = asked->bytes_total;
        member->bytes_free = asked->bytes_free;
        member->disk = event->registration.disk;
    }
    if (member->durable && same_record(&record, &member->record)) {
        answer_taken(m, member, event->registration.tag, taken.proposal, out);
        return;
    }
    member->record = record;
    member->durable = false;
    member->persisting++;
    member->pending_tag = event->registration.tag;
    member->pending_proposal = taken.proposal;
    m->version++;
    emit(out, (struct members_action){ .type = MEMBERS_PERSIST, .id = record.id });
}

static void on_persisted(struct members *m, const struct members_event *event,
                         struct members_actions *out)
{
    struct member *member = find(m, event->persisted.id);

    CHECK(member != NULL && member->persisting > 0 && !member->removing);
    member->persisting--;
    if (member->persisting > 0) {
        return; /* That was an older record; the registration that waits has a newer one. */
    }
    if (event->persisted.status != 0) {
        refuse(out, member->pending_tag, event->persisted.status,
               "the registration could not be written");
        return;
    }
    member->durable = true;
    if (!member->pending_proposal.is_one) {
        member->heard_ms = event->now_ms;
    }
    answer_taken(m, member, member->pending_tag, member->pending_proposal, out);
}

/* ---- Removal ---- */

const char *members_may_remove(const struct members *m, server_id id)
{
    const struct member *member = members_find(m, id);

    if (member == NULL || !member_stays(member)) {
        return NULL;
    }
    if (member->presumed) {
        return "may be there: the manager has just started, and waits for its servers; try again "
               "in "
               "a few seconds";
    }
    if (member->persisting > 0) {
        return "is just registering";
    }
    if (member->removing) {
        return "is just being removed";
    }
    if (!member->up) {
        return NULL;
    }
    return member->leaves ? "is up: wait until it has left (`morsel recover status`), then stop it"
                          : "is up: drain it first (`morsel iod drain`), then stop it";
}

static void on_remove(struct members *m, server_id id)
{
    struct member *member = find(m, id);

    CHECK(member != NULL && member_stays(member) && members_may_remove(m, id) == NULL);
    member->removing = true;
}

/* What could not be written down did not happen. */
static void on_removed(struct members *m, const struct members_event *event)
{
    struct member *member = find(m, event->removed.id);

    CHECK(member != NULL && member->removing);
    member->removing = false;
    if (event->removed.status == 0) {
        member->record.removed = true;
        member->registered = member->connected = member->leaves = false;
        m->version++;
    }
}

static void on_admit(struct members *m, server_id id)
{
    struct member *member = find(m, id);

    CHECK(member != NULL && member_stays(member) && member->persisting == 0);
    member->record.waits = false;
    m->version++;
}

/* ---- Life and death ---- */

static void on_asks(struct members *m, const struct members_event *event)
{
    struct member *member = find(m, event->asks.id);

    if (member != NULL && member->registered && !member->removing) {
        member->heard_ms = event->now_ms;
        member->connected = true;
        member->owed_tag = event->asks.tag;
    }
}

static void not_owed(struct members *m, struct member *member, uint64_t now_ms)
{
    if (member->owed_tag != 0) {
        member->owed_tag = 0;
        member->heard_ms = now_ms;
        watch(m, member);
    }
}

/* It may have asked anew meanwhile. */
static void on_answered(struct members *m, const struct members_event *event)
{
    struct member *member = find(m, event->answered.id);

    if (member != NULL && member->owed_tag == event->answered.tag) {
        not_owed(m, member, event->now_ms);
    }
}

static void on_gone(struct members *m, const struct members_event *event)
{
    struct member *member = find(m, event->gone);

    if (member != NULL) {
        member->connected = false;
        not_owed(m, member, event->now_ms);
    }
}

static void on_heartbeat(struct members *m, const struct members_event *event,
                         struct members_actions *out)
{
    struct member *member = find(m, event->heartbeat.id);

    if (member == NULL || !member->registered || member->removing) {
        refuse(out, event->heartbeat.tag, MORSEL_NO_SESSION, "register first");
        return;
    }
    member->bytes_total = event->heartbeat.bytes_total;
    member->bytes_free = event->heartbeat.bytes_free;
    member->objects = event->heartbeat.objects;
    member->measured = event->heartbeat.measured;
    member->voters_mark = event->heartbeat.voters_mark;
    member->disk = event->heartbeat.disk;
    member->heard_ms = event->now_ms;
    member->connected = true;
    if (!member->up) {
        member->up = true;
        watch(m, member);
        m->version++;
        emit(out, (struct members_action){ .type = MEMBERS_UP, .id = member->record.id });
    }
    emit(out, (struct members_action){
                  .type = MEMBERS_ALIVE, .tag = event->heartbeat.tag, .id = member->record.id });
}

static void on_tick(struct members *m, uint64_t now_ms, struct members_actions *out)
{
    if (now_ms < m->due_ms) {
        return;
    }
    m->due_ms = UINT64_MAX;
    for (uint32_t i = 0; i < m->count; i++) {
        struct member *member = &m->items[i];

        if (!member->up && !member->presumed) {
            continue;
        }
        if (now_ms < silence_due_ms(m, member)) {
            watch(m, member);
            continue;
        }
        m->version += member->up;
        member->up = member->presumed = false; /* Either way it is worth a line in the log. */
        emit(out, (struct members_action){ .type = MEMBERS_DOWN, .id = member->record.id });
    }
}

void members_step(struct members *m, const struct members_event *event, struct members_actions *out)
{
    switch (event->type) {
    case MEMBERS_REGISTER:
        on_register(m, event, out);
        break;
    case MEMBERS_PERSISTED:
        on_persisted(m, event, out);
        break;
    case MEMBERS_ASKS:
        on_asks(m, event);
        break;
    case MEMBERS_HEARTBEAT:
        on_heartbeat(m, event, out);
        break;
    case MEMBERS_ANSWERED:
        on_answered(m, event);
        break;
    case MEMBERS_GONE:
        on_gone(m, event);
        break;
    case MEMBERS_REMOVE:
        on_remove(m, event->remove);
        break;
    case MEMBERS_REMOVED:
        on_removed(m, event);
        break;
    case MEMBERS_ADMIT:
        on_admit(m, event->admit);
        break;
    case MEMBERS_TICK:
        on_tick(m, event->now_ms, out);
        break;
    }
}

uint64_t members_deadline_ms(const struct members *m)
{
    return m->due_ms;
}

/* ---- Questions ---- */

uint32_t members_place(const struct members *m, inode_id inode, uint32_t width,
                       server_id chosen[STRIPE_WIDTH_MAX])
{
    struct placement_server servers[SERVERS_MAX];
    bool any_connected = false, any_stays = false;

    for (uint32_t i = 0; i < m->count; i++) {
        any_connected |= m->items[i].up && m->items[i].connected;
        any_stays |= m->items[i].up && member_gets_new(&m->items[i]);
    }
    for (uint32_t i = 0; i < m->count; i++) {
        const struct member *member = &m->items[i];

        /* A connection that broke a moment ago is often a server that died; but when all broke, it
         * was the network, and they will be back before the first write. */
        bool live = (member->presumed || (member->up && (member->connected || !any_connected))) &&
                    (member_gets_new(member) || !any_stays) && !member->record.waits;

        servers[i] = (struct placement_server){ member->record.id, live, member->bytes_total,
                                                member->bytes_free };
    }
    return placement_choose(servers, m->count, inode, width, chosen);
}

/* What one server said of its disk. */
struct disk_space
{
    uint64_t device, bytes_total, bytes_free;
};

static int compare_devices(const void *a, const void *b)
{
    const struct disk_space *x = a, *y = b;

    return x->device < y->device ? -1 : x->device > y->device;
}

void members_space(const struct members *m, uint64_t *bytes_total, uint64_t *bytes_free)
{
    struct disk_space live[SERVERS_MAX];
    uint32_t count = 0;

    *bytes_total = *bytes_free = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        const struct member *member = &m->items[i];

        if ((member->up || member->presumed) && !member->record.waits) {
            live[count++] =
                (struct disk_space){ member->disk.device, member->bytes_total, member->bytes_free };
        }
    }
    qsort(live, count, sizeof(live[0]), compare_devices);
    for (uint32_t i = 0; i < count; i++) {
        struct disk_space disk = live[i];

        /* Neighbours on one disk were asked at different moments, and may keep different reserves.
         */
        while (disk.device != 0 && i + 1 < count && live[i + 1].device == disk.device) {
            i++;
            disk.bytes_total =
                live[i].bytes_total > disk.bytes_total ? live[i].bytes_total : disk.bytes_total;
            disk.bytes_free =
                live[i].bytes_free < disk.bytes_free ? live[i].bytes_free : disk.bytes_free;
        }
        *bytes_total += disk.bytes_total;
        *bytes_free += disk.bytes_free;
    }
}

void members_take_words(char *to, size_t capacity, const char *from)
{
    size_t i = 0;

    for (; i + 1 < capacity && from[i] != '\0'; i++) {
        to[i] = from[i] < ' ' || from[i] > '~' ? '?' : from[i];
    }
    to[i] = '\0';
}
