/* Questions to all voters, counted. */
#include "iod/replica/probe_uv.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "replica.pb-c.h"

#include <stdlib.h>

enum { PROBE_CALL_MS = 1500 };

struct server_probe
{
    struct server_probe *next;
    struct probes *probes;
    server_id server;
    uint32_t refused, voters, out;
    bool told; /* That it is dead. */
};

struct asked
{
    struct rpc_call call;
    struct server_probe *probe;
};

static void drop(struct server_probe *s)
{
    struct server_probe **at = &s->probes->first;

    while (*at != s) {
        at = &(*at)->next;
    }
    *at = s->next;
    free(s);
}

/* The majority may have spoken before all have answered. */
static void count(struct server_probe *s)
{
    struct probes *p = s->probes;
    server_id server = s->server;
    bool tells = s->refused >= voter_majority(s->voters) && !s->told && !p->closing;

    s->told = s->told || tells;
    if (s->out == 0) {
        drop(s);
    }
    if (tells) {
        p->dead(p->data, server);
    }
}

static void on_probed(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct asked *a = CONTAINER_OF(call, struct asked, call);
    struct server_probe *p = a->probe;
    Morsel__ProbeReply *m = NULL;

    free(a);
    p->out--;
    if (status == MORSEL_OK) {
        m = rpc_unpack(&morsel__probe_reply__descriptor, reply->body, reply->body_count);
    }
    if (m != NULL) {
        p->refused += m->refused != 0;
        morsel__probe_reply__free_unpacked(m, NULL);
    }
    count(p);
}

/* Who is dead may be a voter: it is refused to us as well, and says nothing. */
static void ask(struct server_probe *p, const Morsel__Voter *voter, const Morsel__ProbeRequest *m)
{
    struct rpc_peer *peer =
        voter->server == p->server ? NULL : ballots_voter(p->probes->ballots, voter);
    struct asked *a = peer == NULL ? NULL : calloc(1, sizeof(*a));

    if (a == NULL) {
        return;
    }
    a->probe = p;
    a->call.impatient = true;
    if (rpc_call_start(&a->call, peer, MSG_PROBE, &m->base, NULL, 0, PROBE_CALL_MS, on_probed) !=
        MORSEL_OK) {
        free(a);
        return;
    }
    p->out++;
}

void probe_begin(struct probes *p, server_id server, const char *address)
{
    const Morsel__VoterSet *set = p->ballots->voters(p->ballots->voters_data);
    Morsel__ProbeRequest m = MORSEL__PROBE_REQUEST__INIT;
    struct server_probe *s = p->first;

    while (s != NULL && s->server != server) {
        s = s->next;
    }
    if (s != NULL || set == NULL || p->closing || (s = calloc(1, sizeof(*s))) == NULL) {
        return;
    }
    *s = (struct server_probe){ .next = p->first, .probes = p, .server = server };
    p->first = s;
    m.server = server;
    m.address = (char *)(uintptr_t)address;
    s->voters = (uint32_t)set->n_voters;
    for (size_t i = 0; i < set->n_voters; i++) {
        if (set->voters[i]->id == voter_name(p->ballots->voter->voter)) {
            s->refused++; /* Ourselves. */
        } else {
            ask(s, set->voters[i], &m);
        }
    }
    count(s);
}

void probes_close(struct probes *p)
{
    p->closing = true;
}

void probes_free(struct probes *p)
{
    while (p->first != NULL) {
        drop(p->first);
    }
}
