/* LevelDB's environment, with table files of our own. */
#include "meta/storage/table_env_leveldb.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <leveldb/env.h>
#include <new>
#include <pthread.h>
#include <string>
#include <sys/uio.h>
#include <unistd.h>

namespace {

/* The thread that is in haste, if any. */
class Haste {
  public:
    void Begin()
    {
        refused_ = false;
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

  private:
    std::atomic<bool> on_{ false };
    std::atomic<pthread_t> thread_{};
    bool refused_ = false; /* Of that thread alone. */
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
                return haste_->Refuse();
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

    Haste haste_;
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

void table_env_begin_haste(leveldb_env_t *env)
{
    table_env_of(env)->haste_.Begin();
}

bool table_env_end_haste(leveldb_env_t *env)
{
    return table_env_of(env)->haste_.End();
}
