/* A ScrubKept in a file of its own. */
#include "iod/scrub_kept_file.h"

#include "common/base/limits.h"
#include "iod/kept_file.h"

/* Offsets begin blocks, or they would be asked for in vain. */
static bool is_sound(const ProtobufCMessage *message)
{
    const Morsel__ScrubKept *kept = (const Morsel__ScrubKept *)message;

    if (kept->n_findings > SCRUB_FINDINGS_MAX || kept->offset % BLOCK_BYTES != 0) {
        return false;
    }
    for (size_t i = 0; i < kept->n_findings; i++) {
        const Morsel__ScrubFinding *f = kept->findings[i];

        if (f->start % BLOCK_BYTES != 0 || f->end % BLOCK_BYTES != 0 || f->start > f->end) {
            return false;
        }
    }
    return true;
}

static const struct kept_kind scrub = { .name = "scrub",
                                        .magic = { 'M', 'O', 'R', 'S', 'S', 'C', 'R', 'B' },
                                        .descriptor = &morsel__scrub_kept__descriptor,
                                        .sound = is_sound };

void scrub_finding_fill(const struct scrub_finding *finding, Morsel__ScrubFinding *message)
{
    morsel__scrub_finding__init(message);
    message->inode = finding->object.inode;
    message->column = finding->object.column;
    message->start = finding->start;
    message->end = finding->end;
    message->blocks = finding->blocks;
    message->unreadable = finding->unreadable;
    message->waits = finding->waits;
    message->seen_s = finding->seen_s;
}

static struct scrub_finding finding_of(const Morsel__ScrubFinding *f)
{
    return (struct scrub_finding){ .object = { .inode = f->inode, .column = f->column },
                                   .start = f->start,
                                   .end = f->end,
                                   .blocks = f->blocks,
                                   .unreadable = f->unreadable,
                                   .waits = f->waits,
                                   .seen_s = f->seen_s };
}

int scrub_kept_read(const char *dir, bool *found, struct scrub_position *position,
                    struct scrub_finding *findings, uint32_t *findings_count, struct errmsg *err)
{
    Morsel__ScrubKept *kept;
    int rv = kept_read(&scrub, dir, (ProtobufCMessage **)&kept, err);

    *found = kept != NULL;
    *findings_count = 0;
    if (kept == NULL) {
        return rv;
    }
    *position = (struct scrub_position){ .running = kept->running,
                                         .began_s = kept->began_s,
                                         .ended_s = kept->ended_s,
                                         .after = kept->after,
                                         .object = { .inode = kept->inode, .column = kept->column },
                                         .offset = kept->offset,
                                         .objects = kept->objects,
                                         .bytes = kept->bytes };
    for (size_t i = 0; i < kept->n_findings; i++) {
        findings[(*findings_count)++] = finding_of(kept->findings[i]);
    }
    morsel__scrub_kept__free_unpacked(kept, NULL);
    return rv;
}

bool scrub_kept_fill(const struct scrub *s, struct buf *bytes)
{
    const struct scrub_position *p = &s->position;
    Morsel__ScrubKept kept = MORSEL__SCRUB_KEPT__INIT;
    Morsel__ScrubFinding findings[SCRUB_FINDINGS_MAX], *pointers[SCRUB_FINDINGS_MAX];

    kept.running = p->running;
    kept.began_s = p->began_s;
    kept.ended_s = p->ended_s;
    kept.after = p->after;
    kept.inode = p->object.inode;
    kept.column = p->object.column;
    kept.offset = p->offset;
    kept.objects = p->objects;
    kept.bytes = p->bytes;
    for (uint32_t i = 0; i < s->findings_count; i++) {
        scrub_finding_fill(&s->findings[i], &findings[i]);
        pointers[i] = &findings[i];
    }
    kept.findings = pointers;
    kept.n_findings = s->findings_count;
    return kept_fill(&scrub, &kept.base, bytes);
}

int scrub_kept_write(const char *dir, const struct buf *bytes, struct errmsg *err)
{
    return kept_write(&scrub, dir, bytes, err);
}
