/* An ordered store in memory that forgets: after a crash it holds what was synced and, of the
 * batches behind, a prefix that the seed decides.
 *
 * Keeps the promises of meta/storage/kv.h. Simple on purpose: a sorted array, copied whole.
 */
#ifndef MORSEL_TESTS_LIB_KV_FORGETFUL_H
#define MORSEL_TESTS_LIB_KV_FORGETFUL_H

#include "common/base/prng.h"
#include "meta/storage/kv.h"

/* `prng` is borrowed. NULL: out of memory. */
struct kv *kv_forgetful_open(struct prng *prng);

/* Loss of power. Returns how many of the unsynced batches survived. */
uint32_t kv_forgetful_crash(struct kv *kv);

/* Batches that a crash may lose. */
uint32_t kv_forgetful_unsynced(const struct kv *kv);

/* Every commit from now on fails with `status` and changes nothing; 0: works again. */
void kv_forgetful_fail(struct kv *kv, int status);

/* Whoever does not wait (kv.h) finds one key of `one_in` not in memory, in a scan one record, unless
 * it was loaded a moment ago; and of a range less is loaded than is asked for, at times. 0, as at
 * first: all is in memory. Nothing counts as loaded when this is called. */
void kv_forgetful_cold(struct kv *kv, uint32_t one_in);

/* Whoever asks for room finds none one time in `one_in`, unless it was made since the last commit. 0,
 * as at first: there always is. */
void kv_forgetful_full(struct kv *kv, uint32_t one_in);

/* How often there was none. */
uint64_t kv_forgetful_found_full(const struct kv *kv);

/* How often get and scan have answered MORSEL_AGAIN. */
uint64_t kv_forgetful_refused(const struct kv *kv);

/* All records as bytes, for comparison: append key and value of each as blobs. */
void kv_forgetful_dump(const struct kv *kv, struct buf *out);

#endif
