/* LevelDB's environment, with table files of our own. */
#include "meta/storage/table_env_leveldb.h"

extern "C" {
#include "common/base/crc32c.h"
}

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <leveldb/env.h>
#include <new>
#include <pthread.h>
#include <string>
#include <sys/uio.h>
#include <unistd.h>

namespace {

void PutLe32(std::string *to, uint32_t value)
{
    for (int shift = 0; shift < 32; shift += 8) {
        to->push_back(static_cast<char>(value >> shift));
    }
}

/* A block of a table with one key, of which the format wants: lengths of what it shares with the key
 * before (nothing), of itself and of its value; key and value; the one place where a key is whole, and
 * how many such places there are. Behind it that it is not compressed, and its checksum. The value fills
 * what is left of `bytes`. Empty: that is too little. */
std::string StandIn(size_t bytes)
{
    /* Behind all keys of ours (kv_leveldb.c); then its number in the order of writing, 0, and that it
     * was put. */
    const std::string key("\xff\xff\xff\x01\0\0\0\0\0\0\0", 11);
    const size_t trailer = 5, head = 1 + 1 + 5, places = 8;
    std::string block;
    size_t filler;
    uint32_t crc;

    if (bytes < head + key.size() + places + trailer) {
        return block;
    }
    filler = bytes - head - key.size() - places - trailer;
    block.reserve(bytes);
    block.push_back(0);
    block.push_back(static_cast<char>(key.size()));
    for (int i = 0; i < 4; i++) { /* Always five bytes, seven bits each. */
        block.push_back(static_cast<char>((filler >> (7 * i) & 0x7f) | 0x80));
    }
    block.push_back(static_cast<char>(filler >> 28));
    block.append(key);
    block.append(filler, '\0');
    PutLe32(&block, 0);
    PutLe32(&block, 1);
    block.push_back(0);
    crc = crc32c(0, block.data(), block.size());
    PutLe32(&block, ((crc >> 15) | (crc << 17)) + 0xa282ead8U); /* Of a checksum is made another. */
    return block;
}

/* The thread that is in haste, if any. */
class Haste {
  public:
    void Begin(bool iterator)
    {
        refused_ = false;
        iterator_ = iterator;
        thread_.store(pthread_self(), std::memory_order_relaxed);
        on_.store(true, std::memory_order_relaxed);
    }

    bool End()
    {
        on_.store(false, std::memory_order_relaxed);
        return refused_;
    }

    /* Of the thread that asks. Others may see either value of `on_`, and find that it is not they. */
    bool IsOn() const
    {
        return on_.load(std::memory_order_relaxed) &&
               pthread_equal(thread_.load(std::memory_order_relaxed), pthread_self()) != 0;
    }

    leveldb::Status Refuse()
    {
        refused_ = true;
        return leveldb::Status::IOError("not in memory");
    }

    leveldb::Status RefuseBlock(size_t bytes, leveldb::Slice *result)
    {
        std::string block = iterator_ ? StandIn(bytes) : std::string();

        if (block.empty()) {
            return Refuse();
        }
        refused_ = true;
        stand_ins_.push_back(std::move(block));
        *result = stand_ins_.back();
        return leveldb::Status::OK();
    }

    void ForgetStandIns()
    {
        if (!stand_ins_.empty()) {
            stand_ins_.clear();
        }
    }

  private:
    std::atomic<bool> on_{ false };
    std::atomic<pthread_t> thread_{};
    /* Of that thread alone. */
    bool refused_ = false;
    bool iterator_ = false;
    std::deque<std::string> stand_ins_; /* Where they are, they stay: blocks point to them. */
};

class TableFile final : public leveldb::RandomAccessFile {
  public:
    TableFile(std::string name, int fd, Haste *haste)
        : name_(std::move(name)), fd_(fd), haste_(haste)
    {
    }

    ~TableFile() override
    {
        close(fd_);
    }

    leveldb::Status Read(uint64_t offset, size_t n, leveldb::Slice *result,
                         char *scratch) const override
    {
        bool hasty = haste_->IsOn();
        size_t done = 0;

        while (done < n) {
            struct iovec room = { scratch + done, n - done };
            ssize_t got =
                preadv2(fd_, &room, 1, static_cast<off_t>(offset + done), hasty ? RWF_NOWAIT : 0);

            if (got > 0) {
                done += static_cast<size_t>(got);
            } else if (got == 0) {
                break; /* The end of the file. */
            } else if (hasty) {
                /* Not in `scratch`: so LevelDB does not keep it. */
                return haste_->RefuseBlock(n, result);
            } else if (errno != EINTR) {
                return leveldb::Status::IOError(name_, strerror(errno));
            }
        }
        *result = leveldb::Slice(scratch, done);
        return leveldb::Status::OK();
    }

  private:
    const std::string name_;
    const int fd_;
    Haste *const haste_;
};

/* What LevelDB does with its files. */
struct Progress
{
    std::atomic<uint64_t> logs{ 0 };
    std::atomic<uint64_t> newest_log{ 0 };
    std::atomic<uint64_t> flushing{
        0
    }; /* The log of the memory table that is being written out; 0: none. */
    std::atomic<uint64_t> flushes{ 0 };
    std::atomic<uint64_t> written{ 0 };
    std::atomic<bool> failed{ false };

    leveldb::Status Note(const leveldb::Status &status)
    {
        written++;
        if (!status.ok()) {
            failed = true;
        }
        return status;
    }
};

/* "DIRECTORY/000123.log": 123; else 0. */
uint64_t NumberOfLog(const std::string &name)
{
    size_t at = name.rfind('/') == std::string::npos ? 0 : name.rfind('/') + 1;
    char *end;
    uint64_t number = strtoull(name.c_str() + at, &end, 10);

    return strcmp(end, ".log") == 0 ? number : 0;
}

/* Any file that is written but a log. */
class NotedFile final : public leveldb::WritableFile {
  public:
    NotedFile(leveldb::WritableFile *file, Progress *progress) : file_(file), progress_(progress)
    {
    }

    ~NotedFile() override
    {
        delete file_;
    }

    leveldb::Status Append(const leveldb::Slice &data) override
    {
        return progress_->Note(file_->Append(data));
    }

    leveldb::Status Close() override
    {
        return progress_->Note(file_->Close());
    }

    leveldb::Status Flush() override
    {
        return progress_->Note(file_->Flush());
    }

    leveldb::Status Sync() override
    {
        return progress_->Note(file_->Sync());
    }

  private:
    leveldb::WritableFile *const file_;
    Progress *const progress_;
};

class TableEnv final : public leveldb::EnvWrapper {
  public:
    TableEnv() : leveldb::EnvWrapper(leveldb::Env::Default())
    {
    }

    leveldb::Status NewRandomAccessFile(const std::string &name,
                                        leveldb::RandomAccessFile **result) override
    {
        int fd;

        *result = nullptr;
        if (haste_.IsOn()) {
            return haste_.Refuse();
        }
        fd = open(name.c_str(), O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            return errno == ENOENT ? leveldb::Status::NotFound(name, strerror(errno))
                                   : leveldb::Status::IOError(name, strerror(errno));
        }
        *result = new (std::nothrow) TableFile(name, fd, &haste_);
        if (*result == nullptr) {
            close(fd);
            return leveldb::Status::IOError(name, "out of memory");
        }
        return leveldb::Status::OK();
    }

    leveldb::Status NewWritableFile(const std::string &name,
                                    leveldb::WritableFile **result) override
    {
        uint64_t log = NumberOfLog(name);
        leveldb::Status status = leveldb::EnvWrapper::NewWritableFile(name, result);

        if (!status.ok()) {
            return log != 0 ? status : progress_.Note(status);
        }
        if (log != 0) {
            progress_.flushing = progress_.newest_log.exchange(log);
            progress_.logs++;
            return status;
        }
        leveldb::WritableFile *file = new (std::nothrow) NotedFile(*result, &progress_);

        if (file == nullptr) {
            delete *result;
            *result = nullptr;
            return progress_.Note(leveldb::Status::IOError(name, "out of memory"));
        }
        *result = file;
        return status;
    }

    leveldb::Status RemoveFile(const std::string &name) override
    {
        uint64_t log = NumberOfLog(name);
        leveldb::Status status = leveldb::EnvWrapper::RemoveFile(name);

        /* Its records are in a table now. */
        if (log != 0 && progress_.flushing.compare_exchange_strong(log, 0)) {
            progress_.flushes++;
        }
        return status;
    }

    void SleepForMicroseconds(int micros) override
    {
        (void)micros;
    }

    Haste haste_;
    Progress progress_;
};

} // namespace

/* As in LevelDB's c.cc, which does not say it in its header: whoever gets an environment from C
 * looks for it here. */
struct leveldb_env_t
{
    leveldb::Env *rep;
    bool is_default;
};

static TableEnv *table_env_of(leveldb_env_t *env)
{
    return static_cast<TableEnv *>(env->rep);
}

leveldb_env_t *table_env_open(void)
{
    leveldb_env_t *env = new (std::nothrow) leveldb_env_t{ nullptr, false };

    if (env != nullptr && (env->rep = new (std::nothrow) TableEnv()) == nullptr) {
        delete env;
        env = nullptr;
    }
    return env;
}

void table_env_close(leveldb_env_t *env)
{
    if (env != nullptr) {
        delete env->rep;
        delete env;
    }
}

void table_env_begin_haste(leveldb_env_t *env, bool iterator)
{
    table_env_of(env)->haste_.Begin(iterator);
}

bool table_env_end_haste(leveldb_env_t *env)
{
    return table_env_of(env)->haste_.End();
}

void table_env_forget_stand_ins(leveldb_env_t *env)
{
    table_env_of(env)->haste_.ForgetStandIns();
}

uint64_t table_env_logs(leveldb_env_t *env)
{
    return table_env_of(env)->progress_.logs;
}

bool table_env_is_flushing(leveldb_env_t *env)
{
    return table_env_of(env)->progress_.flushing != 0;
}

uint64_t table_env_flushes(leveldb_env_t *env)
{
    return table_env_of(env)->progress_.flushes;
}

uint64_t table_env_progress(leveldb_env_t *env)
{
    return table_env_of(env)->progress_.written;
}

bool table_env_failed(leveldb_env_t *env)
{
    return table_env_of(env)->progress_.failed;
}
