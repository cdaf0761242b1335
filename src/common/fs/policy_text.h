/* Policies and layouts as text: the extended attributes user.morsel.* and what `morsel` prints.
 *
 * Pure. One place for the spelling, because the mount writes it and the command line reads it.
 *
 *   user.morsel.class          "durable", "scavenged"; of a directory, what was set here
 *   user.morsel.replicas       "1" to "3"
 *   user.morsel.morsel_size    bytes, a power of two; "1M" is understood too
 *   user.morsel.stripe_size    morsels that follow each other on a server
 *   user.morsel.stripe_width   servers of a file
 *   user.morsel.scratch        "yes", "no": may data sets that are made there be evicted when benefactors have no more room?
 *                              In user.morsel.policy only where a directory says so
 *   user.morsel.policy         what a new file in this directory gets: "class=durable replicas=2
 *                              morsel_size=1048576 stripe_size=1 stripe_width=4", and where no
 *                              directory says how many copies, " copies_from=auto" or "=cluster"
 *                              behind it; cannot be set
 *   user.morsel.largest        of a directory with class scavenged: bytes that a file made there may have, by what benefactors give
 *                              now; missing while that is not known. Cannot be set
 *   user.morsel.pinned         of a file of class scavenged: "yes", its data set is not evicted; "no"
 *   user.morsel.reserved       of a file of class scavenged that is not sealed: so many bytes its data set is to have, as digits.
 *                              Who sets it stores the set from then on; it ends with the seal, and when the file is truncated to zero
 *   user.morsel.layout         of a file: "class=durable replicas=1 morsel_size=1048576
 *                              stripe_size=1 servers=1,2,3,4", one server id per column; with
 *                              more than one copy that of its first, and " groups=7:1/2,9:2/3"
 *                              behind it: per column the group and all its servers. With class scavenged there are no
 *                              servers, but "stripe_width=4 set=1234": its data set. Cannot be set
 *
 * A directory without a value of its own inherits: the attribute is absent, and removing it means
 * "inherit again". The value 0 (and "inherit" for the class) stands for that in the numbers here,
 * as in struct Policy on the wire.
 */
#ifndef MORSEL_COMMON_FS_POLICY_TEXT_H
#define MORSEL_COMMON_FS_POLICY_TEXT_H

#include "common/base/errmsg.h"
#include "common/base/limits.h"
#include "common/base/types.h"

#define POLICY_XATTR_PREFIX    "user.morsel."
#define POLICY_XATTR_EFFECTIVE "user.morsel.policy"
#define POLICY_XATTR_LAYOUT    "user.morsel.layout"
#define POLICY_XATTR_PINNED    "user.morsel.pinned"
#define POLICY_XATTR_RESERVED  "user.morsel.reserved"
#define POLICY_XATTR_LARGEST   "user.morsel.largest"

enum policy_key {
    POLICY_CLASS,
    POLICY_REPLICAS,
    POLICY_MORSEL_SIZE,
    POLICY_STRIPE_SIZE,
    POLICY_STRIPE_WIDTH,
    POLICY_SCRATCH, /* enum policy_answer */
    POLICY_KEYS
};

/* Of a policy that is a question. Numbers of the wire. */
enum policy_answer { POLICY_UNSAID, POLICY_NO, POLICY_YES };

enum {
    POLICY_VALUE_TEXT_MAX = 32, /* Of one value, with its final zero. */
    POLICY_TEXT_MAX = 256,      /* Of user.morsel.policy. */
    LAYOUT_TEXT_MAX = 256 + (22 + 11 * REPLICAS_MAX) * STRIPE_WIDTH_MAX /* Of user.morsel.layout. */
};

/* Who says how many copies a new file gets. */
enum policy_source {
    POLICY_OF_DIRECTORY, /* It, or one above it. */
    POLICY_OF_CLUSTER,   /* The manager's setting. */
    POLICY_AUTO          /* Likewise, and it depends on how many servers there are. */
};

/* Values by policy_key; 0 is "inherited". */
struct policy_values
{
    uint32_t values[POLICY_KEYS];
    enum policy_source copies_from; /* Of what is effective. */
};

struct layout_text_group
{
    uint32_t number, count; /* 0: one copy. */
    server_id servers[REPLICAS_MAX];
};

struct layout_text
{
    uint32_t layout_class; /* enum layout_class */
    uint32_t replicas;
    uint32_t morsel_bytes;
    uint32_t stripe_morsels;
    uint32_t width;
    uint64_t set; /* Class scavenged: its data set. */
    server_id servers[STRIPE_WIDTH_MAX];
    struct layout_text_group groups[STRIPE_WIDTH_MAX];
};

/* "class", "replicas", "morsel_size" ... */
const char *policy_key_name(enum policy_key key);

/* Find the key of "replicas" or "user.morsel.replicas". False: there is none of this name. */
bool policy_key_find(const char *name, enum policy_key *key_out);

/* Read a value; `text` need not end with a zero. MORSEL_INVAL with what would be right. */
int policy_value_parse(enum policy_key key, const char *text, size_t count, uint32_t *value_out,
                       struct errmsg *err);

/* Write a value: "durable", "1048576"; "inherit" and "0" for an inherited one. */
void policy_value_format(enum policy_key key, uint32_t value, char text[POLICY_VALUE_TEXT_MAX]);

/* "directory", "cluster", "auto" */
const char *policy_source_name(enum policy_source source);

/* The text of user.morsel.policy, and back (MORSEL_MALFORMED). */
void policy_format(const struct policy_values *policy, char text[POLICY_TEXT_MAX]);
int policy_parse(const char *text, struct policy_values *policy_out);

/* The text of user.morsel.layout, and back (MORSEL_MALFORMED). */
void layout_format(const struct layout_text *layout, char text[LAYOUT_TEXT_MAX]);
int layout_parse(const char *text, struct layout_text *layout_out);

#endif
