/* What a benefactor has is moved to others when its owner gives less than that.
 *
 * Pure; built on the repair of morsels (repair.h), with the same tasks and bounds; the host drives both through it. The benefactor says with each report how much has
 * to go (its *excess*), and how much of that its owner's disk has no room for (*pressed*). Of its copies, one after the other:
 *
 *   - of which there are enough elsewhere: it is not named any more (DROP);
 *   - otherwise another one fetches the morsel, and takes its place in the map in the same step (ADD, `instead`): first those
 *     of which other copies count, then those of which this is the only one that does;
 *   - where nobody can take it: as long as the disk is pressed, it goes if another copy counts (YIELD), and the morsel is short.
 *     The last one that counts stays, always, and so does all that nobody can take of a disk that is not pressed.
 *
 * What no map names any more is waste, which the benefactor deletes. Until it has said so, what went is taken off its
 * excess (`gone`, and what is on its way), so that no more goes than has to. It goes on with what is left at each report.
 *
 *   gives way --walk: surplus, spare, last, pressed--> all passes over --nothing found--> stuck, again after period_ms
 *      ^                                                        |
 *      +--------------------------------------------------------+ something went
 *
 * One benefactor at a time, one step at a time: between two of them the map has changed, so that two that are pressed never both give up
 * a copy because of that of the other.
 */
#ifndef MORSEL_META_DATASETS_RELOCATE_H
#define MORSEL_META_DATASETS_RELOCATE_H

#include "meta/datasets/repair.h"

/* Advance by one event: what is to be moved, and all else (repair_step()). */
void relocate_step(struct repair *r, const struct repair_event *event, struct repair_actions *out);

/* When REPAIR_TICK is due, for either. */
uint64_t relocate_deadline_ms(const struct repair *r);

/* Is what is to be moved off it on its way, so that its next report should come soon? */
bool relocate_goes_on(const struct donor *donor);

#endif
