/* A namespace on a forgetful store, with the few words that tests need. */
#ifndef MORSEL_TESTS_LIB_NS_FIXTURE_H
#define MORSEL_TESTS_LIB_NS_FIXTURE_H

#include "meta/namespace/fsck.h"
#include "meta/namespace/namespace.h"
#include "tests/lib/kv_forgetful.h"

enum { NS_FIXTURE_INODES = 4096 };

struct ns_fixture
{
    struct prng prng;
    struct kv *kv;
    struct ns *ns;
    int64_t time_ns;              /* Of the next operation; grows. */
    bool open[NS_FIXTURE_INODES]; /* What is_open() answers. */
    struct fsck *fsck;            /* Hears of names that come and go; NULL: none. */
    struct errmsg err;
};

/* A formatted namespace. */
void ns_fixture_open(struct ns_fixture *f, uint64_t seed);
void ns_fixture_close(struct ns_fixture *f);

/* Close and open the namespace on the same store. */
int ns_fixture_reopen(struct ns_fixture *f);

/* Stamp and run. */
int ns_fixture_run(struct ns_fixture *f, struct meta_op *op);

struct slice text(const char *s);

/* Operations, not run yet. Regular files lie on servers 1 and 2. */
struct meta_op op_make(inode_id parent, const char *name, uint32_t mode);
struct meta_op op_unlink(inode_id parent, const char *name, bool directory);
struct meta_op op_rename(inode_id parent, const char *name, inode_id new_parent,
                         const char *new_name, uint32_t flags);
struct meta_op op_link(inode_id inode, inode_id parent, const char *name);
struct meta_op op_xattr(inode_id inode, const char *name, struct slice value);

/* Run, expect success, return op.target. */
inode_id ns_must_make(struct ns_fixture *f, inode_id parent, const char *name, uint32_t mode);
void ns_must(struct ns_fixture *f, struct meta_op op);

/* The inode, which must be there. */
struct inode ns_must_inode(struct ns_fixture *f, inode_id id);

#endif
