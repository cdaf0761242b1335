/* For the files of this room that are one module, set_uv.h: set_life_uv.c (sets, and what all have in common), set_store_uv.c (open
 * morsels and their rounds), set_cut_uv.c (which of them a truncation ends), set_place_uv.c (where they go), set_report_uv.c (the manager hears of them), set_read_uv.c,
 * set_ask_uv.c (pages of the map), set_load_uv.c (morsels on their way here), set_damage_uv.c (copies of them that are wrong), set_origin_uv.c (those that nobody has any more), set_claim_uv.c (who fetches them), set_return_uv.c (where they go then), set_sync_uv.c. */
#ifndef MORSEL_CLIENT_DATASETS_SET_PARTS_UV_H
#define MORSEL_CLIENT_DATASETS_SET_PARTS_UV_H

#include "client/datasets/donors_uv.h"
#include "client/datasets/set_map.h"
#include "client/datasets/set_places.h"
#include "client/datasets/set_uv.h"

enum {
    SET_PAUSE_MS = 250, /* Before somebody is asked again who could not help. */
    SET_CLAIM_ENDS_MAX =
        1024 /* On their way to the manager; so many morsels of a set one mount may claim (claims.h). */
};

/* Of all sets. */
struct data_sets
{
    struct list all;        /* struct data_set */
    struct set_load *loads; /* By set and morsel: on their way, or here. */
    struct list
        cached; /* struct set_load that are here and that nobody uses, the last used at the end. */
    struct list waiting;         /* struct set_load: for room. */
    uint64_t cached_bytes;       /* Of those that are here. */
    struct list idle;            /* struct open_morsel of all sets, the last used at the end; */
    uint64_t idle_bytes;         /* and what they take. */
    uint64_t loading_bytes;      /* Of those for which somebody was asked. */
    uint32_t origin_parts[2];    /* That are being fetched, from elsewhere and from the cluster. */
    uint32_t claim_ends;         /* set_claim_end() on their way to the manager. */
    uint64_t returning_bytes;    /* Of morsels on their way back to benefactors. */
    struct set_damages *damages; /* NULL: nothing wrong was found. */
};

/* One morsel and who holds bytes of it that are not on a disk. */
struct set_unsynced
{
    uint32_t number;
    uint32_t count;
    struct
    {
        donor_id donor;
        uint64_t verifier;
    } copies[REPLICAS_MAX];
};

struct set_sync_run;

struct data_set
{
    struct client *client;
    inode_id inode;
    uint64_t number;
    uint32_t morsel_bytes;
    unsigned references;
    bool dropped, sealed, sealing, stored_here;
    uint64_t
        evicted_logged_ms; /* When the log was last told that somebody wants what was evicted. */
    uint64_t
        asked_anew_ms; /* When the manager was last asked whether that is still so; 0: never. */
    struct list node;  /* In data_sets.all. */

    struct set_map map;
    uint64_t
        changes; /* Of what the map says, by us, and forgetting: an answer to a question of before is not kept. */
    struct list asks;  /* struct set_ask */
    struct list loads; /* struct set_load of it that run, */
    struct list kept;  /* and those that are here. */

    struct set_origin *origin; /* NULL: nobody has wanted anything of there. */
    unsigned returning;        /* Morsels of there on their way back to benefactors. */
    bool returned;             /* Some are there by now, and the map may not say so. */

    struct set_places places;
    struct list placing; /* struct open_morsel: wait for places. */
    bool asking_places;

    struct open_morsel *open; /* By number. */
    struct list idle;         /* The last used at the end. */
    uint64_t idle_bytes;
    struct list unreported; /* Through, and not told. */
    struct list paused;     /* Go on with a tick. */
    bool reporting;
    unsigned holds;      /* struct set_hold that run: so long nothing is reported; */
    struct list holding; /* those that wait for the report that is under way. */
    unsigned restoring;  /* Morsels whose digest the manager is going to be told; */
    struct seal *seal;   /* what waits for that. */

    struct set_unsynced *unsynced; /* In the order in which they were stored. */
    uint32_t unsynced_count, unsynced_room;
    bool sync_unsure;          /* Some may have been forgotten, for want of memory. */
    struct set_sync_run *sync; /* Runs now. */
    struct list syncs_now,
        syncs_next; /* struct set_sync: served by that one, and by the one behind. */
};

struct data_set *set_ref(struct data_set *set);
void set_unref(struct data_set *set);

static inline uint32_t set_morsel_of(const struct data_set *set, uint64_t offset)
{
    return (uint32_t)(offset / set->morsel_bytes);
}

/* When something that begins now has to have ended, on uv_now(); UINT64_MAX: never. */
uint64_t set_deadline_ms(const struct data_set *set);

/* Nothing is restored any more: if it is to be sealed, that begins. */
void set_seal_go(struct data_set *set);

/* ---- set_ask_uv.c ---- */

/* Embed it in what wants to know. */
struct set_ask_wait
{
    struct list node;
    uint32_t morsel;
    void (*done)(struct set_ask_wait *wait, int status, const struct set_entry *entry);
};

/* Ask the manager who has the morsel; of its page, which is kept, unless it is `fresh`. `done` runs once, later; MORSEL_NOMEM: never. */
int set_ask(struct data_set *set, struct set_ask_wait *wait, uint32_t morsel, bool fresh);

/* ---- set_origin_uv.c ---- */

struct set_load;

/* May bytes that no benefactor has be had from where the set comes from, as far as is known? */
bool set_origin_may(const struct data_set *set);

/* Do they come from there just now, or did they a moment ago? */
bool set_origin_gives(const struct data_set *set);

/* The load waits for them from now on: set_load_from_origin() or set_load_origin_failed() follows, later. False: they are not to be had
 * there. */
bool set_origin_want(struct set_load *load);

void set_origin_tick(struct data_set *set, uint64_t now_ms);
void set_origin_leave(struct data_set *set); /* Nobody reads any more. */
void set_origin_free(struct data_set *set);

/* ---- set_claim_uv.c ---- */

/* Who fetches a stretch of morsels that nobody has. */
enum set_claimed {
    SET_CLAIM_NONE,   /* Nobody says: whoever wants them, and they are put nowhere. */
    SET_CLAIM_OURS,   /* We do, and put them there; */
    SET_CLAIM_OTHERS, /* another mount, and it is to be asked again behind `wait_ms`; */
    SET_CLAIM_THERE   /* somebody has them by now. */
};

/* Zeroed, embed it in what is to be fetched. */
struct set_claim
{
    /* From `done` on: */
    enum set_claimed what;
    uint32_t count; /* Of so many morsels. */
    uint32_t wait_ms;
    donor_id *donors; /* OURS: `copies` of each; malloc()ed, the caller's. Otherwise NULL. */
    uint32_t copies;

    /* The module's own. */
    struct data_set *set; /* Borrowed. */
    uint32_t first;
    bool asking;
    uint64_t asked_ms;
    struct meta_call call;
    void (*done)(struct set_claim *claim);
};

/* Ask the manager. `done` runs once, later. MORSEL_NOMEM and others: never. */
int set_claim_start(struct set_claim *claim, struct data_set *set, uint32_t first, uint32_t count,
                    void (*done)(struct set_claim *claim));
void set_claim_tick(struct set_claim *claim, uint64_t now_ms);
void set_claim_cancel(struct set_claim *claim); /* `done` runs soon, later. */

/* They are not fetched, or not put back: others may claim them. While the manager is away these wait for it, SET_CLAIM_ENDS_MAX at most, of all
 * sets: the first ones, for what was claimed when it went is among them, and later ones are about claims that it has never heard of. What it is not
 * told ends by itself soon after the last claim of the set is renewed (claims.h). */
void set_claim_end(struct data_set *set, uint32_t first, uint32_t count);

/* Zeroed, one for each set: a manager that is away is told once when it is back, and not as often as it was to be. */
struct set_renewal
{
    struct meta_call call;
    struct data_set *set; /* One reference, while it runs. */
    bool running;
};

/* All that is claimed of the set is still on its way. Nothing happens while one runs, or without memory. */
void set_claim_renew(struct set_renewal *renewal, struct data_set *set);

/* ---- set_return_uv.c ---- */

/* Put a claimed morsel, which is verified, back; or end the claim. References to the pieces are taken. */
void set_return_start(struct data_set *set, uint32_t morsel, const struct set_entry *entry,
                      struct payload *const pieces[SET_PIECES_MAX], const donor_id *donors,
                      uint32_t copies);

/* ---- set_load_uv.c ---- */

/* A morsel on its way here, or here: then it has no readers, and is in the cache. */
struct set_load
{
    struct set_load_key
    {
        uint64_t set, morsel;
    } key;
    UT_hash_handle hh; /* In data_sets.loads, if listed. */
    struct client *client;
    struct data_set *set; /* NULL: it is here, and its set is gone. */
    struct list node;     /* In set->loads or set->kept. */
    struct list queue;    /* In data_sets.cached or data_sets.waiting. */
    struct list readers;  /* struct set_read */
    bool listed, fresh, here, is_new;
    struct set_entry entry;
    struct payload *pieces[SET_PIECES_MAX]; /* NULL: zeros. */
    uint32_t taken_to; /* Up to there readers were handed all of it, in order. */

    struct set_ask_wait ask;
    bool asking;             /* The entry is not known. */
    struct list origin_node; /* In set_origin.waiting, */
    bool at_origin;          /* if it waits for bytes of there, */
    uint64_t origin_ms;      /* and since when. */
    uint64_t others_ms;  /* Since when another mount is waited for, that fetches it; 0: none is. */
    uint64_t claim_ms;   /* Before, the manager is not asked again who does. */
    uint64_t room_bytes; /* That it has of data_sets.loading_bytes. */
    struct load_attempt *attempts[SET_COPIES_MAX]; /* By copy of the entry; NULL: none runs. */
    bool tried[SET_COPIES_MAX];
    bool asked_anew;         /* What the map said of it was evicted: asked for a second time. */
    bool away;               /* One of those that were tried could not be had. */
    unsigned wrong_rounds;   /* In which all were wrong. */
    int status;              /* Of the last failure. */
    uint64_t origin_from_ms; /* Before, benefactors that have it are asked again. */
    uint64_t until_ms;
    uint64_t retry_ms; /* 0: it does not wait. */
};

/* The load of the morsel, which is here, runs, or is new: then it is to be begun. `fresh`: it is a new one. NULL:
 * no memory. */
struct set_load *set_load_get(struct data_set *set, uint32_t morsel, bool fresh);

/* The morsel has come from its origin, and is verified; the pieces that are taken become NULL. Also where nobody waits for it: it is kept. */
void set_load_from_origin(struct data_set *set, uint32_t morsel, const struct set_entry *entry,
                          struct payload *pieces[SET_PIECES_MAX]);

/* Somebody may have it by now: it begins anew. */
void set_load_elsewhere(struct set_load *load);

/* It does not come from there. */
void set_load_origin_failed(struct set_load *load);

/* Of one that is new, and has a reader: it begins. */
void set_load_begin(struct set_load *load);

/* What is known as evicted may have come back by what another mount fetched: is the manager to be asked before somebody hears EIO? Once a
 * second at most. */
bool set_may_ask_anew(const struct data_set *set);

/* Who reads it hears EIO: say why, once in a while. */
void set_log_evicted(struct data_set *set, uint32_t morsel);

/* Nobody finds it any more. It may be gone. */
void set_load_unlist(struct set_load *load);

/* One that is here was read: it is kept, or goes when readers have been handed all of it, in order. */
void set_load_used(struct set_load *load);
void set_loads_tick(struct data_set *set, uint64_t now_ms);
void set_loads_leave(struct data_set *set); /* Nobody reads any more. */
void set_load_free(struct set_load *load);  /* Of one that is here. */

/* ---- set_damage_uv.c ---- */

/* What that benefactor has of the morsel is not what the map says: the manager is told with a tick. */
void set_damage_note(const struct set_load *load, donor_id donor);
void set_damage_tick(struct client *client, uint64_t now_ms);
void set_damage_free(struct data_sets *sets); /* Nothing is under way. */

/* ---- set_read_uv.c ---- */

/* The reader gets its bytes. */
void set_read_take(struct set_read *read, struct set_load *load);

/* ---- set_store_uv.c, set_cut_uv.c, set_place_uv.c, set_report_uv.c ---- */

enum open_state {
    OPEN_IDLE,
    OPEN_LOADING,
    OPEN_PLACING,
    OPEN_WRITING,
    OPEN_REPORTING,
    OPEN_PAUSED
};

struct open_copy
{
    donor_id donor;
    uint64_t instance; /* As the manager knew it when the bytes were sent. */
    uint64_t process;  /* Of whom everything is, that was written there before; 0: not known. */
    uint64_t verifier;
    bool whole; /* It has all bytes of the rounds before. */
    bool sent;  /* This round went there. */
    bool part;  /* Of the morsel, and not all of it: it counts only where it has the rest. */
    bool anew;  /* Another process has answered than before: it may have less than that one had. */
    bool failed;
    unsigned calls;
};

struct open_morsel
{
    uint32_t number;
    UT_hash_handle hh;
    struct data_set *set;
    struct list node;      /* In a list of the set, by state. */
    struct list idle_node; /* In data_sets.idle. */
    enum open_state state;
    struct payload *pieces[SET_PIECES_MAX];
    uint32_t *crcs;  /* Of each block piece up to `length`. */
    uint32_t length; /* Bytes here. */
    uint32_t stored; /* Of these the map has so many. */
    uint32_t
        cut; /* So far the map goes since, and nothing here counts that is behind; UINT32_MAX: all of it does. */
    bool known; /* Its bytes of before are here, if there are any. */
    bool in_map;
    bool rewriting;               /* The map says so. */
    bool announcing;              /* What is reported is that. */
    uint32_t from, to;            /* What the round changes. */
    struct list waiting, sending; /* struct set_write: for the next round; of this one. */
    uint32_t copies_count, wanted;
    struct open_copy copies[REPLICAS_MAX];
    donor_id left[SET_FAILED_MAX]; /* Who may have a part of it, and does not count. */
    uint32_t left_count;
    struct open_call *calls; /* SET_PIECES_MAX for each copy. */
    unsigned calls_running;
    struct set_read load;
    struct meta_call place;
    bool placed_alone; /* For this round others were asked for already. */
    bool
        unreached; /* In this round somebody did not take it for another reason than that he has no room. */
    bool
        restores; /* The round changes nothing: the manager is to hear the digest of what there is. */
    bool starting; /* Within set_write_start(), which calls nobody back. */
    int ending;    /* How the round ends with the next tick; 0: it goes on then. */
    uint64_t until_ms, retry_ms;
};

void open_morsel_go(struct open_morsel *o);
void open_morsels_tick(struct data_set *set, uint64_t now_ms);
void open_morsels_free_idle(struct data_set *set);

/* The manager has cut the morsel at this offset of the file, and does not know its digest: it is told. Without memory it is not. */
void open_morsel_restore(struct data_set *set, uint64_t offset);

/* The file ends there now: of open morsels nothing counts that lies behind, also not of those that are on their way. */
void open_morsels_cut(struct data_set *set, uint64_t size);

/* Where the map was cut meanwhile the morsel ends, too: before its next round, and before the manager hears of this one. Then
 * nobody is waiting for bytes of his that are behind. */
void open_morsel_end_at_cut(struct open_morsel *o);

/* Among those that are idle, as the last used; those that are too many are freed, of its set and of others. */
void open_morsel_list_idle(struct open_morsel *o);

/* Of whatever list it is in, by state. */
void open_morsel_unlist(struct open_morsel *o);

/* NULL: it is not open. */
struct open_morsel *open_morsel_find(const struct data_set *set, uint32_t number);

/* Of one that is idle, or whose round has ended. */
void open_morsel_free(struct open_morsel *o);

/* The bytes of [from, to) are here: the checksums of their blocks, of which the last may be short. */
void open_morsel_note_crcs(struct open_morsel *o, uint32_t from, uint32_t to);

/* Has it a place? Then `copies` has it. Otherwise open_morsel_placed() follows, later. */
bool open_morsel_place(struct open_morsel *o);
void open_morsel_placed(struct open_morsel *o, int status);

/* The manager is told; open_morsel_reported() follows, later. */
void open_morsel_report(struct open_morsel *o);
void open_morsel_reported(struct open_morsel *o, int status);

/* The reader's bytes are those of an open morsel. MORSEL_AGAIN: it is not open; MORSEL_NOMEM. */
int open_morsel_read(struct set_read *read);

/* What the morsel was before it was opened. */
void open_morsel_take(struct open_morsel *o, const struct set_load *load);

uint32_t open_morsel_digest(const struct open_morsel *o);

/* ---- set_sync_uv.c ---- */

void set_note_stored(struct data_set *set, const struct open_morsel *o);
void set_sync_tick(struct data_set *set);

#endif
