/* Directories that programs move about in a tree, through all mounts, also into what lies below
 * them. Each move gives the directory a name that was never there, so a move that ended well has
 * found it where the one before had left it: no two begin at the same name, and in the end each
 * directory is in the tree once, under a name from which no move has taken it. */
#include "tests/sim/world/programs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ROOT = HISTORY_TREE, DEPTH_MAX = HISTORY_TREE + 2 };

static void tree_name(unsigned number, uint64_t value, char *name, size_t size)
{
    if (number == ROOT) {
        (void)snprintf(name, size, "tree");
    } else {
        (void)snprintf(name, size, "x%u.%llu", number, (unsigned long long)value);
    }
}

/* Down to the directory as the table has it; 0: with a reference. */
static int descend(struct act *a, unsigned number, unsigned depth, fuse_ino_t *inode)
{
    const struct history_tree *t = &a->program->history->tree[number];
    fuse_ino_t parent = FUSE_ROOT_ID;
    char name[32];
    int rv;

    *inode = 0;
    if (depth > DEPTH_MAX) {
        return ENOENT; /* The table is in between two moves. */
    }
    tree_name(number, t->value, name, sizeof(name));
    if (number != ROOT && (rv = descend(a, t->parent, depth + 1, &parent)) != 0) {
        return rv;
    }
    rv = kernel_lookup(a->kernel, parent, name, inode);
    if (parent != FUSE_ROOT_ID) {
        kernel_forget(a->kernel, parent);
    }
    return rv;
}

static bool is_below(const struct history *h, unsigned below, unsigned above)
{
    unsigned depth = 0;

    while (below != above && below != ROOT && depth++ < DEPTH_MAX) {
        below = h->tree[below].parent;
    }
    return below == above;
}

/* What is to be moved, and where to. */
struct move
{
    unsigned number, from, into;
    uint64_t value, value_new;
    bool circle; /* As far as the table knows. */
};

/* Nobody else moves anything, and what moved before is known: then it is plain what is to come. */
static bool is_alone(const struct history *h, uint64_t moves)
{
    return h->tree_busy == 1 && h->tree_moves == moves && !h->tree_unsure && h->meta_losses == 0;
}

static void check_answer(const struct program *p, const struct move *m, int rv, bool alone)
{
    int wanted = m->circle ? EINVAL : 0;

    if (alone && !act_is_trouble(rv) && rv != wanted) {
        world_fail("%s: x%u.%llu goes from x%u into x%u: \"%s\" and not \"%s\"", p->name, m->number,
                   (unsigned long long)m->value, m->from, m->into, strerror(rv), strerror(wanted));
    }
}

static void note_move(struct history *h, const struct move *m, int rv, bool synced)
{
    struct history_tree *t = &h->tree[m->number];

    if (rv == 0) {
        h->counts.moved++;
        if (t->value == m->value) {
            t->maybe_parent = m->from; /* If the power goes. */
            t->maybe_value = synced || !h->forgetful ? 0 : m->value;
            t->parent = m->into;
            t->value = m->value_new;
        }
        if ((synced || !h->forgetful) && h->moves_count < HISTORY_MOVES_MAX) {
            h->moves[h->moves_count++] = m->value;
        }
    } else if (rv == EINVAL) {
        h->counts.circles++;
    } else if (act_is_trouble(rv)) {
        h->tree_unsure = true;
        t->maybe_parent = m->into;
        t->maybe_value = m->value_new;
    } else if (rv == ENOENT && h->meta_losses > 0 && t->value == m->value && t->maybe_value != 0) {
        /* The move before was forgotten. (Else it is that somebody has been quicker.) */
        t->parent = t->maybe_parent;
        t->value = t->maybe_value;
        t->maybe_value = 0;
    }
}

static int rename_it(struct act *a, const struct move *m, bool synced)
{
    struct kernel_file dir;
    fuse_ino_t from = 0, into = 0;
    char name[32], to[32];
    int rv = descend(a, m->from, 0, &from);

    tree_name(m->number, m->value, name, sizeof(name));
    tree_name(m->number, m->value_new, to, sizeof(to));
    rv = rv != 0 ? rv : descend(a, m->into, 0, &into);
    if (rv == 0) {
        rv = kernel_rename_to(a->kernel, from, name, into, to, 0);
    }
    if (rv == 0 && synced && (rv = kernel_open_dir(a->kernel, into, &dir)) == 0) {
        rv = kernel_fsync_dir(&dir);
        kernel_close_dir(&dir);
    }
    if (into != 0) {
        kernel_forget(a->kernel, into);
    }
    if (from != 0) {
        kernel_forget(a->kernel, from);
    }
    return rv;
}

void tree_move(struct program *p)
{
    struct history *h = p->history;
    struct move m = { .number = (unsigned)world_draw(HISTORY_TREE),
                      .into = (unsigned)world_draw(HISTORY_TREE + 1) };
    bool synced = world_chance(2);
    struct act a;
    uint64_t moves;
    bool alone;
    int rv = act_begin(&a, p);

    moves = ++h->tree_moves;
    m.from = h->tree[m.number].parent;
    m.value = h->tree[m.number].value;
    m.value_new = ++h->last_value;
    m.circle = is_below(h, m.into, m.number);
    h->tree_busy++;
    alone = is_alone(h, moves);
    rv = rv != 0 ? rv : rename_it(&a, &m, synced);
    alone = alone && is_alone(h, moves);
    h->tree_busy--;
    check_answer(p, &m, rv, alone);
    if (act_is_canary(p, "lost-move", 10) && rv == 0) {
        rv = ENOENT;
        m.value_new = m.value;
    }
    note_move(h, &m, rv, synced);
    act_end(&a, "move", "x", m.number, rv == ENOENT || rv == EINVAL ? 0 : rv);
}

/* ---- In the end ---- */

struct tree_walk
{
    struct program *program;
    unsigned found[HISTORY_TREE];
    char names[HISTORY_TREE][32];
    unsigned count;
};

static void visit(void *data, const char *name)
{
    struct tree_walk *w = data;

    if (name[0] == 'x' && w->count < HISTORY_TREE) {
        (void)snprintf(w->names[w->count++], sizeof(w->names[0]), "%s", name);
    }
}

static void found(struct tree_walk *w, const char *name)
{
    const struct history *h = w->program->history;
    unsigned number = (unsigned)strtoul(name + 1, NULL, 10);
    uint64_t value = strtoull(strchr(name, '.') + 1, NULL, 10);

    w->found[number]++;
    for (size_t i = 0; i < h->moves_count; i++) {
        if (value != 0 && h->moves[i] == value) {
            world_fail("%s: %s is still there, and was moved away", w->program->name, name);
        }
    }
}

static int walk_tree(struct tree_walk *w, struct fuse_session *k, fuse_ino_t inode, unsigned depth)
{
    struct tree_walk here = { .program = w->program };
    struct kernel_file dir;
    fuse_ino_t child;
    int rv = kernel_open_dir(k, inode, &dir);

    if (rv == 0) {
        rv = kernel_list(&dir, visit, &here);
        kernel_close_dir(&dir);
    }
    for (unsigned i = 0; rv == 0 && i < here.count && depth < DEPTH_MAX; i++) {
        found(w, here.names[i]);
        rv = kernel_lookup(k, inode, here.names[i], &child);
        if (rv == 0) {
            rv = walk_tree(w, k, child, depth + 1);
            kernel_forget(k, child);
        }
    }
    return rv;
}

void tree_check(struct program *p)
{
    struct tree_walk w = { .program = p };
    struct act a;
    fuse_ino_t inode = 0;
    int rv = act_begin(&a, p);

    rv = rv != 0 ? rv : kernel_lookup(a.kernel, FUSE_ROOT_ID, "tree", &inode);
    if (rv == 0) {
        rv = walk_tree(&w, a.kernel, inode, 0);
        kernel_forget(a.kernel, inode);
    }
    act_end(&a, "walk", "tree", 0, rv);
    for (unsigned i = 0; rv == 0 && i < HISTORY_TREE; i++) {
        if (w.found[i] != 1) {
            world_fail("%s: x%u is in the tree %u times as %s says", p->name, i, w.found[i],
                       a.kernel->process->name);
        }
    }
}

void tree_judge(const struct history *h)
{
    for (size_t i = 0; i < h->moves_count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (h->moves[i] == h->moves[k]) {
                world_fail("two moves have taken one directory from name .%llu",
                           (unsigned long long)h->moves[i]);
            }
        }
    }
}

int tree_make(struct history *h, struct fuse_session *k)
{
    struct kernel_file dir;
    fuse_ino_t tree;
    char name[32];
    int rv = kernel_mkdir(k, FUSE_ROOT_ID, "tree");

    if (rv != 0 || (rv = kernel_lookup(k, FUSE_ROOT_ID, "tree", &tree)) != 0) {
        return rv;
    }
    for (unsigned i = 0; rv == 0 && i < HISTORY_TREE; i++) {
        h->tree[i] = (struct history_tree){ .parent = ROOT, .value = ++h->last_value };
        tree_name(i, h->tree[i].value, name, sizeof(name));
        rv = kernel_mkdir(k, tree, name);
    }
    if (rv == 0 && (rv = kernel_open_dir(k, tree, &dir)) == 0) {
        rv = kernel_fsync_dir(&dir);
        kernel_close_dir(&dir);
    }
    kernel_forget(k, tree);
    return rv;
}
