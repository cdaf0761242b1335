/* A copy begins and ends; and what its core shows is carried out. */
#include "iod/replica/copy_inner_uv.h"

#include "common/base/check.h"
#include "common/base/status.h"

#include <stdlib.h>
#include <string.h>

uint64_t copy_now_ms(void)
{
    return rpc_boot_ms();
}

group_number copy_number(const struct copy *copy)
{
    return copy->setup.number;
}

const struct replica *copy_replica(const struct copy *copy)
{
    return copy->replica;
}

const char *copy_trouble(const struct copy *copy)
{
    return copy->trouble.text[0] != '\0' ? copy->trouble.text : NULL;
}

/* ---- Tickets and jobs ---- */

struct ticket *ticket_new(struct copy *copy, const struct object_handler *handler)
{
    struct ticket *t = calloc(1, sizeof(*t));

    if (t != NULL) {
        t->copy = copy;
        t->handler = handler;
        t->references = 1;
        list_init(&t->node);
        list_init(&t->damaged);
        list_push_back(&copy->tickets, &t->node);
    }
    return t;
}

void ticket_drop(struct ticket *t)
{
    CHECK(t->references > 0);
    if (--t->references > 0) {
        return;
    }
    list_remove(&t->node);
    if (t->deletion) {
        copy_end_deletion(t->copy);
    }
    if (t->job != NULL) {
        payload_drop(t->job->payload);
        t->job->payload = NULL;
        if (t->handler != NULL) {
            protobuf_c_message_free_unpacked(t->job->message, NULL);
        }
        t->job->message = NULL;
        job_free(t->job);
    }
    ticket_refuse(t, MORSEL_NOT_HERE, NULL); /* The buffer is back by then. */
    free(t->own);
    free(t);
}

void ticket_refuse(struct ticket *t, int status, const char *why)
{
    struct rpc_request *request = t->request;

    t->request = NULL;
    if (request != NULL) {
        rpc_reply_failure(request, status, why);
    }
}

struct job *copy_job(struct copy *copy, void *data)
{
    struct job *job = job_new(&copy->setup.server->jobs, copy->setup.server);

    if (job == NULL) {
        struct errmsg err;

        errmsg_set(&err, "out of memory");
        copy_fail(copy, &err);
        return NULL;
    }
    job->data = data;
    return job;
}

static void release(struct copy *copy)
{
    struct touched *t, *next;
    void (*closed)(void *data) = copy->closed;
    void *data = copy->closed_data;

    HASH_ITER(hh, copy->touched, t, next)
    {
        HASH_DEL(copy->touched, t);
        free(t);
    }
    if (copy->replica != NULL) {
        replica_free(copy->replica);
        free(copy->replica);
    }
    while (!list_empty(&copy->tickets)) { /* Which the core had. */
        struct ticket *left = LIST_ENTRY(list_front(&copy->tickets), struct ticket, node);

        left->references = 1;
        ticket_drop(left);
    }
    copy_file_close(copy->file);
    free(copy);
    if (closed != NULL) {
        closed(data);
    }
}

void copy_worked(struct copy *copy)
{
    CHECK(copy->working > 0);
    copy->working--;
    if (copy->ending && copy->working == 0) {
        release(copy);
    }
}

/* ---- What the core shows ---- */

static void send_message(struct copy *copy, const struct replica_action *a)
{
    if (a->message.type == REPLICA_PIECE && a->message.piece == PIECE_BYTES) {
        copy_give(copy, a);
    } else if (a->message.type == REPLICA_BLOCKS) {
        copy_lend(copy, a);
    } else {
        copy_send(copy, a, NULL);
    }
}

static void perform(struct copy *copy, const struct replica_action *a)
{
    const struct copy_hooks *hooks = copy->setup.hooks;
    struct group_word word;

    switch (a->type) {
    case REPLICA_SEND:
        send_message(copy, a);
        return;
    case REPLICA_WORD:
        group_word(&copy->replica->group, &word);
        hooks->word(copy->setup.data, copy, &word);
        return;
    case REPLICA_RECORD:
        copy_record(copy, a);
        return;
    case REPLICA_NOTE:
        copy_note(copy, a);
        return;
    case REPLICA_REWRITE:
        copy_rewrite(copy);
        return;
    case REPLICA_APPLY:
        copy_apply(copy, a);
        return;
    case REPLICA_SERVE:
        copy_serve(copy, a);
        return;
    case REPLICA_ANSWER:
        copy_answer(copy, a);
        ticket_drop(ticket_of(a->token));
        return;
    case REPLICA_RELEASE:
        ticket_drop(ticket_of(a->token));
        return;
    case REPLICA_SYNC_HERE:
        copy_sync_here(copy, a);
        return;
    case REPLICA_TAKE:
        if (copy_doubt_memory(copy)) {
            (a->piece.everything ? copy_take_list : copy_take)(copy, a);
        } else if (!a->piece.everything) {
            ticket_drop(ticket_of(a->token));
        }
        return;
    case REPLICA_LIST:
        copy_list(copy, a);
        return;
    case REPLICA_MEND:
        copy_put_blocks(copy, a);
        return;
    case REPLICA_REPAIRED:
        copy_repaired(copy, a);
        return;
    case REPLICA_LOOK_HERE:
        copy_look(copy, a);
        return;
    case REPLICA_FOUND:
        copy_found(copy, a);
        return;
    case REPLICA_VOTE:
        hooks->vote(copy->setup.data, copy, a->epoch, a->set, copy->replica->group.record.set);
        return;
    case REPLICA_STOP_VOTE:
        hooks->stop_vote(copy->setup.data, copy);
        return;
    }
}

/* What is done at once calls into the core from within: that is shown by the same loop. */
void copy_drain(struct copy *copy)
{
    struct replica_action a;

    if (copy->draining || copy_trouble(copy) != NULL || copy->ending) {
        return;
    }
    copy->draining = true;
    while (copy_trouble(copy) == NULL && replica_next(copy->replica, copy_now_ms(), &a)) {
        perform(copy, &a);
    }
    copy->draining = false;
    copy_look_at_slow(copy);
    copy_gate_open(copy);
    copy->setup.hooks->due(copy->setup.data, copy);
}

/* Their tokens stay with the core, which forwards none of them from here on. */
static void refuse_all(struct copy *copy, const char *why)
{
    LIST_FOREACH_SAFE(node, &copy->tickets)
    {
        struct ticket *t = LIST_ENTRY(node, struct ticket, node);

        ticket_refuse(t, MORSEL_NOT_HERE, why);
        if (t->deletion) {
            t->deletion = false;
            copy_end_deletion(copy);
        }
    }
}

void copy_fail(struct copy *copy, const struct errmsg *err)
{
    if (copy_trouble(copy) != NULL || copy->ending) {
        return;
    }
    copy->trouble = *err;
    log_error(
        copy->setup.server->log,
        "the copy of group %u is closed, the other servers of the group go on without it: %s; "
        "start this server again when that is mended",
        copy->setup.number, err->text);
    refuse_all(copy, copy->trouble.text);
    copy_mend_stop(copy);
    copy_gate_open(copy);
    copy_write_tick(copy);
}

bool copy_is_well(const struct copy *copy)
{
    const struct group *group = &copy->replica->group;
    group_set held = 0;

    for (uint32_t i = 0; i < copy->setup.count; i++) {
        held |= (group_set)((copy->setup.servers[i] != 0) << i);
    }
    return copy_trouble(copy) == NULL && group->joined != 0 && group->record.set == held;
}

void copy_set_leaving(struct copy *copy, group_set leaving)
{
    replica_set_leaving(copy->replica, leaving);
}

void copy_set_displaced(struct copy *copy, group_set displaced)
{
    replica_set_displaced(copy->replica, displaced);
}

void copy_quit(struct copy *copy)
{
    if (copy_trouble(copy) == NULL) {
        replica_quit(copy->replica);
        copy_tick(copy);
    }
}

bool copy_may_end(const struct copy *copy)
{
    return copy_trouble(copy) != NULL || group_may_end(&copy->replica->group);
}

/* What was under way here the others have, or decide of. */
void copy_send_away(struct copy *copy)
{
    if (copy_may_end(copy) && !group_in_sync(copy->replica->group.record.state)) {
        refuse_all(copy, NULL);
    }
}

/* ---- Time, and what others say ---- */

void copy_heard(struct copy *copy, const struct group_word *word)
{
    if (copy_trouble(copy) == NULL) {
        replica_heard(copy->replica, word, copy_now_ms());
        copy_drain(copy);
    }
}

void copy_decided(struct copy *copy, uint64_t epoch, group_set set)
{
    if (copy_trouble(copy) == NULL) {
        replica_decided(copy->replica, epoch, set, copy_now_ms());
        copy_drain(copy);
    }
}

void copy_dead(struct copy *copy, uint32_t member)
{
    if (copy_trouble(copy) == NULL) {
        replica_dead(copy->replica, member, copy_now_ms());
        copy_drain(copy);
    }
}

void copy_lost(struct copy *copy)
{
    if (copy_trouble(copy) == NULL) {
        replica_fetch_lost(copy->replica);
        replica_lost(copy->replica);
        replica_resend(copy->replica);
        replica_give_again(copy->replica);
        copy_drain(copy);
    }
}

uint64_t copy_deadline_ms(const struct copy *copy)
{
    uint64_t due_ms, write_ms;

    if (copy_trouble(copy) != NULL) {
        return UINT64_MAX;
    }
    due_ms = replica_deadline_ms(copy->replica);
    due_ms = copy->resend_ms < due_ms ? copy->resend_ms : due_ms;
    if (replica_takes(copy->replica) && copy->ask_ms < due_ms) {
        due_ms = copy->ask_ms;
    }
    write_ms = copy_write_due_ms(copy);
    due_ms = write_ms < due_ms ? write_ms : due_ms;
    return copy->flush_ms < due_ms ? copy->flush_ms : due_ms;
}

void copy_tick(struct copy *copy)
{
    uint64_t now_ms = copy_now_ms();

    if (copy_trouble(copy) != NULL) {
        return;
    }
    replica_set_verify(copy->replica, copy->verify_run, copy_is_well(copy));
    if (now_ms >= replica_deadline_ms(copy->replica)) {
        replica_tick(copy->replica, now_ms);
    }
    if (replica_takes(copy->replica) && now_ms >= copy->ask_ms) {
        replica_ask_again(copy->replica);
        copy->ask_ms = now_ms + COPY_ASK_MS;
    }
    if (now_ms >= copy->resend_ms) {
        replica_resend(copy->replica);
        copy->resend_ms = now_ms + COPY_RESEND_MS;
    }
    if (now_ms >= copy->flush_ms) {
        if (!intent_empty(&copy->replica->intent)) {
            replica_flush(copy->replica);
        }
        copy->flush_ms = now_ms + COPY_FLUSH_MS;
    }
    copy_write_tick(copy);
    copy_drain(copy);
}

/* ---- Start and end ---- */

/* What was about to change when the last process ended may not be on the disk: the next sync of
 * everything is of that, too. */
static bool load_dirty(void *data, const struct dirty_record *record)
{
    struct copy *copy = data;

    if (record->kind == DIRTY_INTENT && record->change.everything) {
        copy->touched_all = true;
    } else if (record->kind == DIRTY_INTENT) {
        copy_touch(copy, record->change.object);
    }
    replica_load_dirty(copy->replica, record);
    return true;
}

/* What was begun, and not done as far as the disk knows, may have been carried out. On the clock of an
 * earlier kernel times say nothing. */
static bool load_operation(void *data, const struct copy_operation *op)
{
    struct copy *copy = data;
    struct op_known known = op->known;
    uint64_t now_ms = copy_now_ms();

    if (op->boot != copy->boot) {
        known.until_ms = now_ms + COPY_VALID_MS;
    }
    if (!op->done) {
        known.answer.status = MORSEL_UNSURE;
    }
    return known.until_ms <= now_ms || replica_load_operation(copy->replica, &known);
}

static group_set vacant_places(const struct copy_setup *setup)
{
    group_set vacant = 0;

    for (uint32_t i = 0; i < setup->count; i++) {
        vacant |= (group_set)((setup->servers[i] == 0) << i);
    }
    return vacant;
}

/* Whoever gets a vacant place gets everything; a log of what changes until then is of no use. */
static void miss_everything(struct copy *copy)
{
    struct dirty_record all = { .kind = DIRTY_CHANGED, .change.everything = true };

    all.members = (uint8_t)vacant_places(&copy->setup);
    if (all.members != 0) {
        replica_load_dirty(copy->replica, &all);
    }
}

/* Once: behind that its epoch is as high as the command's, or higher. */
static int force(struct copy *copy, struct copy_file_found *found, struct errmsg *err)
{
    const struct copy_setup *s = &copy->setup;

    if (s->forced == 0 || found->record.epoch >= group_forced_epoch(s->forced)) {
        return MORSEL_OK;
    }
    if (!found->state) {
        errmsg_set(err, "this copy was named as the one that counts, and it is not there any more: "
                        "name another one with `morsel recover force`");
        return MORSEL_CORRUPT;
    }
    log_warning(
        s->server->log,
        "group %u: by command of the administrator this copy counts from now on, which was %s in "
        "epoch %llu: what was written elsewhere and is not here is lost",
        s->number, group_state_name(found->record.state), (unsigned long long)found->record.epoch);
    group_record_force(&found->record, s->me, s->forced);
    return MORSEL_OK;
}

static int open_files(struct copy *copy, struct errmsg *err)
{
    const struct copy_setup *s = &copy->setup;
    struct copy_name name = {
        .group = s->number, .count = s->count, .me = s->me, .since = s->since
    };
    struct copy_file_found found = { .dirty = load_dirty,
                                     .operation = load_operation,
                                     .data = copy };
    int rv;

    memcpy(name.servers, s->servers, sizeof(name.servers));
    rv = copy_file_open(s->server->datadir.path, &name, s->kind, store_loss(s->server->store),
                        &found, &copy->file, err);
    if (rv == MORSEL_OK) {
        if (found.trouble.text[0] != '\0') {
            log_warning(s->server->log, "group %u: %s", s->number, found.trouble.text);
        }
        copy->forgot_until_ms = found.forgot ? copy_now_ms() + COPY_VALID_MS : 0;
        miss_everything(copy);
        group_record_fit(&found.record, s->count);
        rv = force(copy, &found, err);
    }
    if (rv == MORSEL_OK) {
        replica_start(copy->replica, &found.record, store_loss(s->server->store), s->start,
                      copy_now_ms());
        rv = copy_renew_memory(copy, err);
    }
    return rv;
}

int copy_open(const struct copy_setup *setup, struct copy **copy_out, struct errmsg *err)
{
    const struct replica_setup inner = { .id = setup->number,
                                         .count = setup->count,
                                         .me = setup->me,
                                         .vacant = vacant_places(setup),
                                         .leases = setup->leases,
                                         .slow_limit_ms = setup->slow_limit_ms,
                                         .slow_pause_ms = setup->slow_pause_ms,
                                         .clients_max = COPY_CLIENTS_MAX,
                                         .ops_max = COPY_OPERATIONS_MAX,
                                         .objects_max = COPY_OBJECTS_MAX,
                                         .spans_max = 2 * COPY_OBJECTS_MAX };
    struct copy *copy = calloc(1, sizeof(*copy));
    int rv;

    *copy_out = NULL;
    if (copy == NULL) {
        return MORSEL_NOMEM;
    }
    copy->setup = *setup;
    list_init(&copy->tickets);
    list_init(&copy->damaged);
    list_init(&copy->gated);
    write_pace_init(&copy->writes);
    copy->boot = boot_id();
    random_bytes(&copy->own_client, sizeof(copy->own_client));
    copy->own_client |= 1;
    copy->replica = malloc(sizeof(*copy->replica));
    if (copy->replica == NULL || !replica_init(copy->replica, &inner)) {
        release(copy);
        return MORSEL_NOMEM;
    }
    rv = open_files(copy, err);
    if (rv == MORSEL_NOMEM) {
        release(copy);
        return rv;
    }
    if (rv != MORSEL_OK) {
        copy_fail(copy, err);
    }
    *copy_out = copy;
    copy_drain(copy);
    return MORSEL_OK;
}

void copy_close(struct copy *copy, void (*closed)(void *data), void *data)
{
    CHECK(!copy->ending && !copy->draining);
    copy->ending = true;
    copy->closed = closed;
    copy->closed_data = data;
    copy->working++;
    copy_mend_stop(copy);
    copy_gate_open(copy);
    copy_write_tick(copy);
    copy_worked(copy);
}
