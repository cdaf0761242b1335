/* Does the kernel take one file for two? What it was told of names lately, and who has asked last.
 *
 * rename(2) looks the two names up one after the other. Where another mount renames the file in
 * between, they name the same file, and the kernel, which takes that for two links of it, says that
 * all is done without asking anybody. So an answer to LOOKUP that names a file under another name
 * than the kernel, or the thread that asks, was told a moment ago is held against what is
 * remembered here, and given in another way: so that a rename comes to the manager, or begins again,
 * and nobody else sees a difference.
 *
 * All times are of a clock that stands still while the mount does (client_present_ms()): what the kernel
 * began before the mount was stopped, it asks when the mount goes on.
 *
 * Pure. Direct-mapped tables of a fixed size: what is forgotten there is answered as ever. For
 * files with one name, and directories; links are what the kernel takes them for.
 */
#ifndef MORSEL_CLIENT_COHERENCE_KERNEL_NAMES_H
#define MORSEL_CLIENT_COHERENCE_KERNEL_NAMES_H

#include "common/base/types.h"

#include <stdbool.h>
#include <stdint.h>

struct kernel_names;

/* NULL: out of memory. */
struct kernel_names *kernel_names_new(void);
void kernel_names_free(struct kernel_names *k); /* NULL is allowed. */

/* The kernel was told that the name is this inode's (moved: knows it by its own rename), and may go
 * by that until then without asking; 0: it asks each time. */
void kernel_names_told(struct kernel_names *k, inode_id parent, const char *name, inode_id inode,
                       uint64_t now_ms, uint64_t until_ms);

void kernel_names_moved(struct kernel_names *k, inode_id parent, const char *name, inode_id inode,
                        uint64_t now_ms, uint64_t until_ms);

/* The name is gone, and the kernel knows. */
void kernel_names_gone(struct kernel_names *k, inode_id parent, const char *name);

/* The kernel was told to look up all names again. */
void kernel_names_dropped(struct kernel_names *k, uint64_t now_ms);

enum kernel_names_answer {
    KERNEL_NAMES_PLAIN,
    /* ESTALE: the kernel begins the whole call again, and asks for every name that is in it. It does
       so once only: so this is said of an inode once a second at most, and not to a thread that has
       been sent back already. And it does so not at all where the name is to be made (mkdir(2) of a
       name that is there would say ESTALE): so only of what a stranger would be
       worse for. */
    KERNEL_NAMES_AGAIN,
    /* An inode that nobody else has: rename(2) sends its question then, and is answered by name;
       all else that is asked of that inode is ESTALE, and makes the kernel look the name up again.
     */
    KERNEL_NAMES_STRANGER
};

/* The name is the inode's: how is the thread to be answered that looks it up? 0: who asks is not
 * known. `asks_no_more`: a directory or a socket, which programs get hold of without a further
 * question (O_PATH, connect). `asked_ms`: when it asked, for it has what it found before in its hands as long as it waits.
 * PLAIN is followed by kernel_names_told(). */
enum kernel_names_answer kernel_names_found(struct kernel_names *k, uint32_t thread,
                                            inode_id parent, const char *name, inode_id inode,
                                            bool asks_no_more, uint64_t asked_ms);

/* It was told that there is no such name. */
void kernel_names_absent(struct kernel_names *k, uint32_t thread, inode_id parent,
                         const char *name);

/* The thread was answered otherwise, or asks for something else than a name. */
void kernel_names_other(struct kernel_names *k, uint32_t thread);

/* The thread was told ESTALE, by whomever: the kernel begins its call again, without going by what
 * it has kept. */
void kernel_names_sent_back(struct kernel_names *k, uint32_t thread, uint64_t now_ms);

/* An inode for KERNEL_NAMES_STRANGER. Never the same twice, and nothing that the manager knows. */
inode_id kernel_names_stranger(struct kernel_names *k);
bool kernel_names_is_stranger(inode_id inode);

#endif
