/* Benefactors for tests of repair: machines that come and go, with what lies on their disks, around the core; what it wants is carried
 * out, and all morsels are looked at behind every step. */
#ifndef MORSEL_TESTS_REPAIR_CLOUD_H
#define MORSEL_TESTS_REPAIR_CLOUD_H

#include "common/base/prng.h"
#include "meta/datasets/relocate.h"

enum {
    DESKS = 9,
    SETS = 4,
    MORSELS = 40, /* Of each set. */
    BYTES = 4096, /* Of each morsel. */
    AFTER_MS = 60000,
    LOOK_MS = 10000,
    REPORT_MS = 3000
};

/* A machine, and its disk. */
struct desk
{
    bool up, gone; /* `gone`: for good. */
    bool refuses;  /* To give copies out; */
    bool paused;   /* and says so. */
    bool leaving;  /* It says so; */
    bool pressed;  /* its owner's disk is full. */
    donor_id id;
    uint64_t instance, report_ms;
    uint32_t room;                 /* Morsels; */
    uint32_t gives;                /* as much as its owner has said at first. */
    uint32_t has[SETS][MORSELS];   /* Digest; 0: nothing. */
    bool condemned[SETS][MORSELS]; /* To be deleted there. */
};

struct order
{
    bool busy;
    struct repair_task task;
    uint64_t due_ms;
};

struct cloud
{
    struct repair r;
    struct sets sets;
    struct donors donors;
    struct prng prng;
    uint64_t now_ms, instances;
    struct desk desks[DESKS];
    struct order orders[REPAIR_FLIGHT_MAX * 2]; /* Some are not heard of any more. */
    uint32_t digests;
    bool owners; /* They leave, and give less. */
    bool smooth; /* Fetches are quick, and none fails by itself. */
    uint32_t fetched, voided, failed, given_up, dropped, forgotten, taken_back, moved, yielded;
};

uint64_t draw(struct cloud *c, uint64_t below);
const struct data_set *set_of(const struct cloud *c, uint32_t i);
const struct donor *donor_of(const struct cloud *c, donor_id id);
bool counts(const struct cloud *c, donor_id id);
/* Morsels on its disk. */
uint32_t used(const struct desk *d);
/* Of that, what has to go: bytes. */
uint64_t excess(const struct desk *d);
/* In the map. */
void change(struct cloud *c, uint64_t set, const struct set_morsel *m);
/* `copies` 0: as many as are drawn. */
void make_sets(struct cloud *c, uint32_t copies);
/* A client stores the morsel at some that take it, perhaps anew. */
void store(struct cloud *c, uint32_t set, uint32_t number);
void report(struct cloud *c, struct desk *d);
/* It says what it has. */
void tell(struct cloud *c, struct desk *d);
/* `again`: the same process. */
void come(struct cloud *c, struct desk *d, bool again);
void go(struct cloud *c, struct desk *d);
void step(struct cloud *c, struct repair_event *event);
/* The map names its target no more, which was one too many. */
void drop(struct cloud *c, const struct repair_task *t);
/* What is due. */
void turn(struct cloud *c);
/* So long, in steps that are as long as nothing is due. */
void pass(struct cloud *c, uint64_t ms);
void cloud_make(struct cloud *c, uint64_t seed, uint64_t after_ms, uint32_t room);
void cloud_end(struct cloud *c);
/* Behind a time in which nothing has happened. `exact`: there is no surplus, either. */
void all_is_well(struct cloud *c, bool exact);

#endif
