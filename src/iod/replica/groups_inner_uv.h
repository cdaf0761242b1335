/* For groups_*.c only.
 *
 *   groups_run_uv.c    time, what copies and peers want, requests, deletions, what is told
 *   groups_verify_uv.c comparisons of copies
 *   groups_scrub_uv.c  damage that the server's scrub has found
 *   groups_quit_uv.c   a planned stop: the others are to go on without this server
 *   groups_open_uv.c   which copies there are: opened, opened again when others hold the group's places, dropped */
#ifndef MORSEL_IOD_REPLICA_GROUPS_INNER_UV_H
#define MORSEL_IOD_REPLICA_GROUPS_INNER_UV_H

#include "iod/replica/groups_uv.h"

struct group_entry
{
    UT_hash_handle hh;
    group_number number;
    struct groups *groups;
    uint32_t count, me;
    server_id servers[REPLICAS_MAX]; /* 0: vacant. */
    uint64_t since[REPLICAS_MAX];
    uint64_t forced;                  /* copy_setup.forced */
    struct peer *peers[REPLICAS_MAX]; /* By place; ours is NULL, and so is a vacant one. */
    const struct mirror_lease *leases[REPLICAS_MAX];
    uint64_t
        hurried[REPLICAS_MAX]; /* The round for which that one's lease was asked for at once. */
    struct mirror_lease none;  /* Of a vacant place: never held. */
    uint64_t verify_run;       /* The comparison that the manager wants; 0: none. */
    struct copy *copy;         /* NULL: it is being closed, or could not be opened. */
    struct errmsg slow;        /* copy_slow_words(), as last told. */
    uint64_t unsure_ms; /* groups_confirmed(): until then, on rpc_boot_ms(); 0: it is sure. */
    bool well;          /* As it was seen last. */
    bool closing;       /* To be opened again, or for good. */
};

struct group_entry *groups_find(const struct groups *g, group_number number);

/* Something is due at another time than before. */
void groups_rearm(struct groups *g);

/* Of a planned stop, with the timer; it may be the last thing that happens here. */
void groups_look_leave(struct groups *g);

/* One copy less is open. */
void groups_copy_closed(void *data);

/* What copies, peers, voters and clients want of us; the data is struct groups, of copies the entry. */
extern const struct copy_hooks groups_copy_hooks;
extern const struct peers_hooks groups_peers_hooks;
void groups_decided(void *data, group_number group, uint64_t epoch, group_set set);
void groups_dead(void *data, server_id server);
void groups_hand_ons_begin(struct groups *g);
void groups_verify_next(struct groups *g); /* In each tick. */
void groups_route(void *data, struct job *job, const struct object_handler *handler);

#endif
