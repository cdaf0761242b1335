/* Files with copies (docs/replication.md): what servers say of their groups while the history goes on, and, in the
 * end, whether all groups are whole, and whether the servers of each have the same objects, byte for byte. That is
 * looked at on their disks, past the programs. */
#include "common/fs/placing.h"
#include "common/store/store_file.h"
#include "common/store/store_format.h"
#include "tests/sim/world/fiber.h"
#include "tests/sim/world/programs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    WELL_S_MAX = 10, /* So long groups may take to come together when all is healed, */
    SAME_S_MAX = 10, /* and until what is deleted is gone everywhere; */
    MENDED_S_MAX =
        60 /* so long until the scrubs have repaired what a disk did not give for a while. */
};

void copies_draw(struct history *h)
{
    h->copies = world_chance(2) ? 1 : world_chance(4) ? 3 : 2;
    h->iods_count = 2;
    if (h->copies > 1) {
        h->counts.with_copies++;
        h->iods_count = h->copies + (unsigned)world_draw(HISTORY_IODS_MAX - h->copies + 1);
    }
}

/* Refused with ENOSPC while fewer servers are up than there are to be copies, so it is tried again. */
int copies_policy(const struct history *h, struct fuse_session *k, const char *directory)
{
    uint64_t until_ns = h->world->now_ns + HISTORY_CALL_S * WORLD_S;
    char value[4];
    int rv;

    if (h->copies == 1) {
        return 0;
    }
    (void)snprintf(value, sizeof(value), "%u", h->copies);
    while ((rv = kernel_set_xattr(k, FUSE_ROOT_ID, directory, "user.morsel.replicas", value,
                                  strlen(value), 0)) == ENOSPC &&
           h->world->now_ns < until_ns) {
        fiber_sleep(100 * WORLD_MS);
    }
    return rv;
}

/* ---- What is said of groups ---- */

static struct history_group *group_of(struct history *h, unsigned number)
{
    unsigned i = 0;

    while (i < h->groups_count && h->groups[i].number != number) {
        i++;
    }
    if (i == h->groups_count) {
        CHECK(i < HISTORY_GROUPS_MAX);
        h->groups[h->groups_count++] =
            (struct history_group){ .number = number, .set = (1U << h->copies) - 1 };
    }
    return &h->groups[i];
}

/* Of the server of that name; 32: it is none of the group's. */
static unsigned place_of(const struct history *h, const char *name, unsigned group)
{
    char iod[WORLD_NAME_MAX];

    for (unsigned i = 0; i < h->iods_count; i++) {
        (void)snprintf(iod, sizeof(iod), "iod%u", i + 1);
        if (strcmp(iod, name) == 0 && h->iods[i] != NULL) {
            return host_iod_place(h->iods[i], group);
        }
    }
    return 32;
}

/* All who hear of it say it; the first one counts. */
static void on_decided(struct history *h, unsigned number, uint64_t epoch, unsigned set)
{
    struct history_group *g = group_of(h, number);

    if (epoch == g->epoch && set != g->set) {
        world_fail("group %u has two sets in epoch %llu: 0x%x and 0x%x", number,
                   (unsigned long long)epoch, g->set, set);
    }
    if (epoch <= g->epoch) {
        return;
    }
    h->counts.fail_overs += (g->set & ~set) != 0;
    h->counts.recoveries += (set & ~g->set) != 0;
    h->counts.votes_lost += g->asked_epoch == epoch && (g->asked_by & ~set) != 0;
    g->epoch = epoch;
    g->set = set;
}

static void on_asked(struct history *h, const char *who, unsigned number, uint64_t epoch)
{
    struct history_group *g = group_of(h, number);
    unsigned place = place_of(h, who, number);

    h->counts.votes++;
    if (epoch <= g->epoch) {
        h->counts.votes_lost += epoch == g->epoch && place < 32 && (g->set >> place & 1) == 0;
        return;
    }
    if (g->asked_epoch != epoch) {
        g->asked_epoch = epoch;
        g->asked_by = 0;
    }
    g->asked_by |= place < 32 ? 1U << place : 0;
}

/* Only where the disk has refused something, and then somebody starts the server anew. */
static void on_closed(struct history *h, const char *who, const char *line)
{
    char iod[WORLD_NAME_MAX];

    for (unsigned i = 0; i < h->iods_count; i++) {
        (void)snprintf(iod, sizeof(iod), "iod%u", i + 1);
        if (strcmp(iod, who) == 0 && h->disk_failed[i]) {
            h->counts.copies_closed++;
            return;
        }
    }
    world_fail("%s: %s", who, line);
}

static void on_log(void *data, const char *who, const char *line)
{
    struct history *h = data;
    unsigned long long epoch;
    unsigned group, set;

    if (sscanf(line, "group %u: in epoch %llu the servers in sync are those at places 0x%x", &group,
               &epoch, &set) == 3) {
        on_decided(h, group, epoch, set);
    } else if (sscanf(line,
                      "group %u: wants to go on with another set of servers, and asks the voters "
                      "in epoch %llu",
                      &group, &epoch) == 2) {
        on_asked(h, who, group, epoch);
    } else if (strstr(line, "has no process any more") != NULL) {
        h->counts.found_dead++;
    } else if (strstr(line, "holds up changes") != NULL) {
        h->counts.named_slow++;
    } else if (strstr(line, "is closed, the other servers of the group go on without it") != NULL) {
        on_closed(h, who, line);
    } else if (strstr(line, "did not take its new size") != NULL ||
               strstr(line, "lease or size lock was lost before") != NULL) {
        h->size_lost = true;
    }
}

void copies_listen(struct history *h)
{
    h->world->heard = on_log;
    h->world->heard_data = h;
}

/* So many copies the group ought to have: fewer than others where somebody has asked for that, or a server is to give its
 * place to another one. */
static unsigned copies_wanted(const struct history *h, unsigned group)
{
    unsigned wanted = h->copies, places;
    uint64_t newest = 0, version;

    for (unsigned i = 0; i < h->iods_count; i++) {
        if (h->iods[i] != NULL && (places = host_iod_places(h->iods[i], group, &version)) > 0 &&
            version >= newest) {
            newest = version;
            wanted = places < h->copies ? places : h->copies;
        }
    }
    return wanted;
}

bool copies_degraded(const struct history *h)
{
    for (unsigned i = 0; i < h->groups_count; i++) {
        /* Places change hands. */
        if ((unsigned)__builtin_popcount(h->groups[i].set) <
            copies_wanted(h, h->groups[i].number)) {
            return true;
        }
    }
    return false;
}

bool copies_vote_is_open(const struct history *h)
{
    for (unsigned i = 0; i < h->groups_count; i++) {
        if (h->groups[i].asked_epoch > h->groups[i].epoch) {
            return true;
        }
    }
    return false;
}

bool copies_are_well(const struct history *h)
{
    for (unsigned i = 0; i < h->iods_count; i++) {
        if (!host_iod_is_well(h->iods[i])) {
            return false;
        }
    }
    return true;
}

/* ---- What lies on the disks ---- */

struct content
{
    uint8_t *bytes;
    size_t size;
    bool *
        gone; /* Of each block: it is marked, so that nobody takes for its bytes what lies there. */
};

/* The checksums of a group of blocks. */
static void read_marks(int fd, size_t group, bool gone[GROUP_BLOCKS])
{
    static const struct store_sum mark = STORE_SUM_GONE;
    struct store_sum sums[GROUP_BLOCKS];
    ssize_t got = pread(fd, sums, sizeof(sums), (off_t)(group * GROUP_SPAN + CHECKSUMS_AT));

    CHECK(got >= 0);
    for (size_t i = 0; i < (size_t)got / sizeof(sums[0]); i++) {
        gone[i] = sums[i].cur == mark.cur && sums[i].prev == mark.prev;
    }
}

/* The data of an object file, without its pages of checksums; false: there is none. */
static bool read_object(const char *path, struct content *c)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    size_t at = 0;

    *c = (struct content){ .size = 0 };
    if (fd < 0) {
        return false;
    }
    CHECK(fstat(fd, &st) == 0);
    c->bytes = calloc(1, (size_t)st.st_size + 1);
    c->gone = calloc((size_t)st.st_size / GROUP_SPAN + 1, GROUP_BLOCKS);
    CHECK(c->bytes != NULL && c->gone != NULL);
    while (at < (size_t)st.st_size) {
        size_t in_group = at % GROUP_SPAN;
        ssize_t got;

        if (in_group < CHECKSUMS_PAGE_BYTES) {
            read_marks(fd, at / GROUP_SPAN, c->gone + at / GROUP_SPAN * GROUP_BLOCKS);
            at += CHECKSUMS_PAGE_BYTES - in_group;
            continue;
        }
        got = pread(fd, c->bytes + c->size, GROUP_SPAN - in_group, (off_t)at);
        CHECK(got >= 0);
        if (got == 0) {
            break;
        }
        c->size += (size_t)got;
        at += (size_t)got;
    }
    (void)close(fd);
    return true;
}

/* A difference is put into `why`. */
struct comparison
{
    struct history *history;
    unsigned group, from, to; /* Of iods. */
    uint64_t same, gone;
    char *why;
    size_t size;
};

/* A block that is gone on both has no bytes to compare: it is an error to who reads it, whatever lies there. */
static void pass_over_gone(struct comparison *c, struct content *a, struct content *b)
{
    size_t least = a->size < b->size ? a->size : b->size;

    for (size_t at = 0; at < least; at += BLOCK_BYTES) {
        size_t count = least - at < BLOCK_BYTES ? least - at : BLOCK_BYTES;

        if (a->gone[at / BLOCK_BYTES] && b->gone[at / BLOCK_BYTES]) {
            memset(a->bytes + at, 0, count);
            memset(b->bytes + at, 0, count);
            c->gone++;
        }
    }
}

static void content_free(struct content *c)
{
    free(c->bytes);
    free(c->gone);
}

static bool same_object(struct comparison *c, const char object[STORE_NAME_BYTES])
{
    char here[64 + STORE_NAME_BYTES], there[64 + STORE_NAME_BYTES];
    struct content a, b;
    bool has_a, has_b, same;
    size_t at = 0;

    (void)snprintf(here, sizeof(here), "iod%u/objects/%.*s", c->from + 1, STORE_NAME_BYTES, object);
    (void)snprintf(there, sizeof(there), "iod%u/objects/%.*s", c->to + 1, STORE_NAME_BYTES, object);
    has_a = read_object(here, &a);
    has_b = read_object(there, &b);
    pass_over_gone(c, &a, &b);
    /* Nothing and an object without bytes are the same to everybody. */
    same = a.size == b.size && (a.size == 0 || memcmp(a.bytes, b.bytes, a.size) == 0);
    while (a.bytes != NULL && b.bytes != NULL && at < a.size && at < b.size &&
           a.bytes[at] == b.bytes[at]) {
        at++;
    }
    if (!same && (!has_a || !has_b)) {
        (void)snprintf(c->why, c->size,
                       "object %s of group %u has %zu bytes on iod%u and is not on iod%u", object,
                       c->group, a.size + b.size, (has_a ? c->from : c->to) + 1,
                       (has_a ? c->to : c->from) + 1);
    } else if (!same) {
        (void)snprintf(c->why, c->size,
                       "object %s of group %u differs at byte %zu: %zu bytes on iod%u, %zu on "
                       "iod%u",
                       object, c->group, at, a.size, c->from + 1, b.size, c->to + 1);
    }
    content_free(&a);
    content_free(&b);
    c->same += same;
    return same;
}

/* All objects of the group that one of its servers has, on another one. */
static bool compare_servers(struct comparison *c)
{
    char path[64], object[STORE_NAME_BYTES];
    struct dirent *sub, *entry;
    bool same = true;
    DIR *objects, *dir;

    (void)snprintf(path, sizeof(path), "iod%u/objects", c->from + 1);
    objects = opendir(path);
    CHECK(objects != NULL);
    while (same && (sub = readdir(objects)) != NULL) {
        if (sub->d_name[0] == '.') {
            continue;
        }
        (void)snprintf(path, sizeof(path), "iod%u/objects/%.8s", c->from + 1, sub->d_name);
        dir = opendir(path);
        CHECK(dir != NULL);
        while (same && (entry = readdir(dir)) != NULL) {
            struct object_id id;

            if (store_name_parse(entry->d_name, &id) && placing_group(id.column) == c->group) {
                store_name(id, object);
                same = same_object(c, object);
            }
        }
        (void)closedir(dir);
    }
    (void)closedir(objects);
    return same;
}

/* Each pair of servers, both ways round. */
static bool all_the_same(struct history *h, char *why, size_t size)
{
    struct comparison c = { .history = h, .why = why, .size = size };

    for (unsigned i = 0; i < h->iods_count; i++) {
        for (unsigned k = 0; k < h->iods_count; k++) {
            for (unsigned g = 0; i != k && host_iod_group(h->iods[i], g, &c.group); g++) {
                c.from = i;
                c.to = k;
                if (host_iod_place(h->iods[k], c.group) < 32 && !compare_servers(&c)) {
                    return false;
                }
            }
        }
    }
    h->counts.same = c.same / 2;
    h->counts.gone = c.gone / 2;
    return true;
}

void copies_judge(struct history *h)
{
    uint64_t until_ns = h->world->now_ns + WELL_S_MAX * WORLD_S;
    char why[256] = "";

    if (h->copies == 1) {
        return;
    }
    while (!copies_are_well(h)) {
        if (h->world->now_ns > until_ns) {
            world_fail("a group is not whole in the end");
        }
        world_run_until(h->world->now_ns + 50 * WORLD_MS);
    }
    world_trace("world", "all groups are whole in the end");
    until_ns = h->world->now_ns + (h->world->bytes_refused ? MENDED_S_MAX : SAME_S_MAX) * WORLD_S;
    while (!all_the_same(h, why, sizeof(why))) {
        if (h->world->now_ns > until_ns) {
            world_fail("%s", why);
        }
        world_run_until(h->world->now_ns + WORLD_S);
    }
    /* Only then may some be gone. */
    if (h->counts.gone > 0 && !h->world->bytes_refused) {
        world_fail("%llu blocks are gone, although each disk has given what it was asked for",
                   (unsigned long long)h->counts.gone);
    }
}
