/* Downloads with libcurl (stage_curl.h). */
#include "client/admin/stage_curl.h"

#include "client/admin/visit.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>

enum {
    SILENT_S = 300,
    REDIRECTIONS_MAX = 10,
    HTTP_PARTIAL = 206,
    HTTP_ELSEWHERE = 300, /* And above: these are not the bytes. */
    HTTP_NO_RANGE = 416
};

/* Of nothing, which is what a question has as its body. */
static const char sha256_of_nothing[] =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

static bool is_http(const char *url)
{
    return strncmp(url, "http", 4) == 0;
}

/* ---- What the server says ---- */

/* The value of the header, without what surrounds it, if it is of that name and fits. */
static bool header_value(const char *line, size_t count, const char *name, char *value, size_t room)
{
    size_t at = strlen(name);

    if (count <= at || strncasecmp(line, name, at) != 0) {
        return false;
    }
    while (at < count && (line[at] == ' ' || line[at] == '\t')) {
        at++;
    }
    while (count > at && strchr(" \t\r\n", line[count - 1]) != NULL) {
        count--;
    }
    if (count - at >= room) {
        return false;
    }
    memcpy(value, line + at, count - at);
    value[count - at] = '\0';
    return true;
}

static void take_range(struct download *d, const char *value)
{
    uint64_t to;

    d->range_total = ORIGIN_SIZE_UNKNOWN;
    d->ranged = sscanf(value, "bytes %" SCNu64 "-%" SCNu64 "/%" SCNu64, &d->range_from, &to,
                       &d->range_total) >= 2;
}

static size_t on_header(char *line, size_t size, size_t count, void *data)
{
    struct download *d = data;
    char value[ORIGIN_ETAG_MAX + 1];

    if (count >= 5 && strncmp(line, "HTTP/", 5) == 0) { /* What a redirection said is not meant. */
        d->etag[0] = '\0';
        d->ranged = false;
        d->region[0] = '\0';
    } else if (header_value(line, count, "x-amz-bucket-region:", d->region, sizeof(d->region))) {
        return size * count;
    } else if (header_value(line, count, "ETag:", value, sizeof(value))) {
        memcpy(d->etag, value, sizeof(value));
    } else if (header_value(line, count, "Content-Range:", value, sizeof(value))) {
        take_range(d, value);
    }
    return size * count;
}

/* Its status; of ftp another one. */
static long answer_of(const struct download *d)
{
    long code = 0;

    (void)curl_easy_getinfo(d->handle, CURLINFO_RESPONSE_CODE, &code);
    return code;
}

/* Does it say something else than the bytes: words for people, or for programs? Behind a redirection that says where to that is not
 * seen, but for those that are not followed. */
static bool is_refused(const struct download *d)
{
    return is_http(d->known.url) && answer_of(d) >= HTTP_ELSEWHERE;
}

/* Where the bytes begin that are going to come. */
static uint64_t begins_at(const struct download *d)
{
    if (!is_http(d->known.url)) {
        return d->from;
    }
    return answer_of(d) == HTTP_PARTIAL && d->ranged ? d->range_from : 0;
}

static void origin_now(const struct download *d, uint64_t at, struct origin *now)
{
    curl_off_t length = -1, modified = -1;

    origin_init(now);
    memcpy(now->url, d->known.url, sizeof(now->url));
    memcpy(now->etag, d->etag, sizeof(now->etag));
    (void)curl_easy_getinfo(d->handle, CURLINFO_FILETIME_T, &modified);
    (void)curl_easy_getinfo(d->handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    if (modified != -1) {
        now->modified_s = modified;
    }
    if (is_http(d->known.url) && d->ranged) {
        now->size = d->range_total;
    } else if (length >= 0) {
        now->size = at + (uint64_t)length;
    }
    if (!origin_sound(now)) {
        now->etag[0] = '\0';
    }
}

static bool begin(struct download *d)
{
    uint64_t at = begins_at(d);
    struct origin now;

    if (d->begun) {
        return true;
    }
    d->begun = true;
    origin_now(d, at, &now);
    d->stopped = (at != 0 && at != d->from) || !d->begin(d->data, &now, at);
    return !d->stopped;
}

/* Its beginning says what is the matter; the rest is not waited for. */
static size_t keep_refusal(struct download *d, const char *bytes, size_t count)
{
    size_t room = DOWNLOAD_REFUSAL_MAX - d->refusal_count;
    size_t kept = count < room ? count : room;

    memcpy(d->refusal + d->refusal_count, bytes, kept);
    d->refusal_count += kept;
    d->refusal[d->refusal_count] = '\0';
    return kept;
}

static size_t on_bytes(char *bytes, size_t size, size_t count, void *data)
{
    struct download *d = data;

    if (is_refused(d)) {
        return keep_refusal(d, bytes, size * count);
    }
    if (!begin(d)) {
        return 0;
    }
    if (!d->take(d->data, bytes, size * count)) {
        d->stopped = true;
        return 0;
    }
    return size * count;
}

/* ---- What is asked for ---- */

static void add_header(struct curl_slist **headers, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*headers, line);

    *headers = longer != NULL ? longer : *headers;
}

/* "from there on, if it still is that one". Without a way to tell all of it is asked for. */
static void add_if_range(struct curl_slist **headers, const struct origin *known)
{
    char line[ORIGIN_ETAG_MAX + 32];
    time_t modified = (time_t)known->modified_s;
    struct tm tm;

    if (origin_has_strong_etag(known)) {
        (void)snprintf(line, sizeof(line), "If-Range: %s", known->etag);
    } else if (gmtime_r(&modified, &tm) == NULL ||
               strftime(line, sizeof(line), "If-Range: %a, %d %b %Y %H:%M:%S GMT", &tm) == 0) {
        return;
    }
    add_header(headers, line);
}

/* Behind names and redirections: what is really going to be connected to. */
static curl_socket_t on_socket(void *data, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct download *d = data;
    const void *generic = &address->addr;
    const struct sockaddr_in *four = generic;
    const struct sockaddr_in6 *six = generic;
    bool may = address->family == AF_INET
                   ? visit_may((const uint8_t *)&four->sin_addr, 4)
                   : address->family == AF_INET6 && visit_may((const uint8_t *)&six->sin6_addr, 16);

    (void)purpose;
    if (!may) {
        d->barred = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* What makes it somebody's own, or not. */
static void set_up_rights(struct download *d)
{
    CURL *c = d->handle;
    const char *home = getenv("HOME");
    char hosts[4096];

    (void)curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    if (d->on_behalf) {
        (void)curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
        (void)curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, on_socket);
        (void)curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, d);
        return;
    }
    (void)curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https,ftp,sftp,file");
    (void)curl_easy_setopt(c, CURLOPT_NETRC, (long)CURL_NETRC_OPTIONAL);
    /* Without this list libcurl would believe any host. */
    (void)snprintf(hosts, sizeof(hosts), "%s/.ssh/known_hosts", home != NULL ? home : "");
    (void)curl_easy_setopt(c, CURLOPT_SSH_KNOWNHOSTS, hosts);
}

static void set_up_part(struct download *d, struct curl_slist **headers)
{
    CURL *c = d->handle;
    char range[64];

    if (d->length > 0 && is_http(d->known.url)) {
        (void)snprintf(range, sizeof(range), "%" PRIu64 "-%" PRIu64, d->from,
                       d->from + d->length - 1);
        (void)curl_easy_setopt(c, CURLOPT_RANGE, range);
    } else if (d->from > 0) {
        (void)curl_easy_setopt(c, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)d->from);
    } else {
        return;
    }
    if (is_http(d->known.url)) {
        add_if_range(headers, &d->known);
    }
}

/* What goes with the keys holds for this host alone, so nobody is followed elsewhere: neither the signature nor the token of a session
 * is for others, and there it would be wrong. What is refused says in its body why. */
static void set_up_s3(struct download *d, struct curl_slist **headers)
{
    const struct s3_access *s3 = d->s3;
    CURL *c = d->handle;
    char text[S3_TOKEN_MAX + 64];

    (void)curl_easy_setopt(c, CURLOPT_FAILONERROR, 0L);
    (void)curl_easy_setopt(c, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    if (s3->id[0] == '\0') {
        return;
    }
    (void)curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    (void)snprintf(text, sizeof(text), "aws:amz:%s:s3", s3->region);
    (void)curl_easy_setopt(c, CURLOPT_AWS_SIGV4, text);
    (void)curl_easy_setopt(c, CURLOPT_USERNAME, s3->id);
    (void)curl_easy_setopt(c, CURLOPT_PASSWORD, s3->secret);
    (void)snprintf(text, sizeof(text), "x-amz-content-sha256: %s", sha256_of_nothing);
    add_header(headers, text);
    if (s3->token[0] != '\0') {
        (void)snprintf(text, sizeof(text), "x-amz-security-token: %s", s3->token);
        add_header(headers, text);
    }
}

static void set_up(struct download *d, struct curl_slist **headers, char error[CURL_ERROR_SIZE])
{
    CURL *c = d->handle;
    uint64_t silent_s = d->silent_ms > 0 ? (d->silent_ms + 999) / 1000 : SILENT_S;

    (void)curl_easy_setopt(c, CURLOPT_URL, d->known.url);
    (void)curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
    (void)curl_easy_setopt(c, CURLOPT_MAXREDIRS, (long)REDIRECTIONS_MAX);
    (void)curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L);
    (void)curl_easy_setopt(c, CURLOPT_FILETIME, 1L);
    (void)curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)d->timeout_ms);
    (void)curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)d->whole_ms);
    (void)curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    (void)curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)silent_s);
    (void)curl_easy_setopt(c, CURLOPT_USERAGENT, "morsel/" MORSELFS_VERSION);
    (void)curl_easy_setopt(c, CURLOPT_BUFFERSIZE, 512L << 10);
    (void)curl_easy_setopt(c, CURLOPT_ERRORBUFFER, error);
    (void)curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(c, CURLOPT_HEADERDATA, d);
    (void)curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_bytes);
    (void)curl_easy_setopt(c, CURLOPT_WRITEDATA, d);
    set_up_rights(d);
    set_up_part(d, headers);
    if (d->s3 != NULL) {
        set_up_s3(d, headers);
    }
    (void)curl_easy_setopt(c, CURLOPT_HTTPHEADER, *headers);
}

/* An answer that is no answer to what was asked. */
static enum download_end judge_refused(const struct download *d, struct errmsg *why)
{
    int answer = (int)answer_of(d);

    if (d->s3 != NULL) {
        s3_refused(answer, d->refusal, d->region, d->s3, why);
    } else {
        errmsg_set(why, "the server says that it is elsewhere (%d), and not where", answer);
    }
    return DOWNLOAD_REFUSED;
}

static enum download_end judge(struct download *d, CURLcode code, const char *error,
                               struct errmsg *why)
{
    long answer = answer_of(d);

    if (!d->begun && is_refused(d) && answer != HTTP_NO_RANGE &&
        (d->s3 != NULL || code == CURLE_OK || code == CURLE_WRITE_ERROR)) {
        return judge_refused(d, why);
    }
    if (code == CURLE_OK && d->from > 0 && !d->begun) {
        /* What is there is less than its origin had, so something was to come. The server has another one by now: of just that
         * length, which libcurl takes for the end of what is there, or shorter (416, of which it makes no error). */
        return DOWNLOAD_NO_RANGE;
    }
    if (code == CURLE_OK && begin(d)) { /* It may be empty. */
        return DOWNLOAD_DONE;
    }
    if (d->stopped) {
        errmsg_set(why, "it answers with other bytes than those that were asked for");
        return DOWNLOAD_STOPPED;
    }
    if (d->from > 0 && !d->begun &&
        ((is_http(d->known.url) && answer == HTTP_NO_RANGE) || code == CURLE_BAD_DOWNLOAD_RESUME ||
         code == CURLE_RANGE_ERROR || code == CURLE_FTP_COULDNT_USE_REST)) {
        return DOWNLOAD_NO_RANGE;
    }
    errmsg_set(why, "%s",
               d->barred && !d->begun
                   ? "its host is one that only this machine, or its neighbours, are to reach"
               : error[0] != '\0' ? error
                                  : curl_easy_strerror(code));
    if (d->begun) {
        return DOWNLOAD_BROKEN;
    }
    return code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST ||
                   code == CURLE_OPERATION_TIMEDOUT
               ? DOWNLOAD_UNREACHABLE
               : DOWNLOAD_REFUSED;
}

enum download_end download_run(struct download *d, struct errmsg *why)
{
    struct curl_slist *headers = NULL;
    char error[CURL_ERROR_SIZE] = "";
    enum download_end end;

    d->begun = d->stopped = d->ranged = d->barred = false;
    d->etag[0] = d->region[0] = d->refusal[0] = '\0';
    d->refusal_count = 0;
    d->handle = curl_easy_init();
    if (d->handle == NULL) {
        errmsg_set(why, "out of memory");
        return DOWNLOAD_REFUSED;
    }
    set_up(d, &headers, error);
    end = judge(d, curl_easy_perform(d->handle), error, why);
    curl_easy_cleanup(d->handle);
    curl_slist_free_all(headers);
    return end;
}

bool download_name(const char *url, char *name, size_t room)
{
    size_t count = strcspn(url, "?");
    size_t from = count;
    char *text;
    int length = 0;
    bool good;

    while (from > 0 && url[from - 1] != '/') {
        from--;
    }
    text = curl_easy_unescape(NULL, url + from, (int)(count - from), &length);
    good = text != NULL && length > 0 && (size_t)length < room && strlen(text) == (size_t)length &&
           strchr(text, '/') == NULL && strcmp(text, ".") != 0 && strcmp(text, "..") != 0;
    if (good) {
        memcpy(name, text, (size_t)length + 1);
    }
    curl_free(text);
    return good;
}
