/* The last one may be the end of its file (handles_uv.h). */
#include "client/data/handles_uv.h"

#include "client/data/file_uv.h"
#include "client/data/source_uv.h"

void files_close_readers(struct client *client)
{
    sources_let_go(client); /* Else what ends with a file closes another one meanwhile. */
    FILES_FOREACH(file, client)
    {
        file_pin(file);
        LIST_FOREACH_SAFE(node, &file->handles)
        {
            struct handle *handle = LIST_ENTRY(node, struct handle, node);

            if (!handle->writable && !handle->internal) {
                file_close(handle);
            }
        }
        file_unpin(file);
    }
}
