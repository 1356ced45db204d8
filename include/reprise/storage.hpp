#pragma once

#include <filesystem>
#include <variant>

namespace reprise {

/// Everything in memory, taken as steps arrive. The default.
struct Memory {};

/// The rows, by far the largest part of most buffers, in a file that is mapped into memory: for
/// buffers larger than memory. The system keeps in memory what is used and fits, writes the rest to
/// the file, and reads it back when it is drawn. Everything else stays in memory: weights and
/// priorities, bookkeeping (`Stats::touched_bytes`), and recurrent states.
///
/// The file is this buffer's scratch space and nothing else. It never has a name (`O_TMPFILE`; on
/// file systems that cannot do that it loses its name as soon as it is made), so nothing is left of
/// it once the buffer is gone or the process has ended, however it ended, and any number of buffers
/// may name the same place. `df` shows the space that it takes, `ls` nothing; a forked child holds
/// that space too, until it ends or calls exec. What is to outlive the process is saved:
/// `ReplayBuffer::save`.
///
/// Disk space is set aside before it is written to, so a full disk is an exception and no signal:
/// when the buffer is made, for the rows that capacity_steps takes while episodes are much longer
/// than windows, and then chunk by chunk where it takes more (one open chunk per writer, episodes
/// of few steps). A `commit` that cannot have it throws, its step stays as it was, and the call can
/// be repeated. `Stats::file_bytes` tells.
///
/// What cannot be an exception: a full disk on a file system that copies on write (btrfs, ZFS),
/// where writing a row anew takes new space whatever was set aside; an error of the device while a
/// row is read back, or another program that shortens the file through /proc, arrives at the thread
/// that reads the row as SIGBUS. Where RLIMIT_FSIZE is set, the system sends SIGXFSZ along with the
/// error; ignore that signal. In a forked child, where no call of the buffer works, what
/// `Writer::now` and `next` refer to is not mapped: SIGSEGV.
///
/// Cost: with all rows in the page cache the same work as in memory, on small pages; a row that is
/// not there costs a read from the disk for each draw. A sampler that had to read asks for all rows
/// of its next batch at once before it copies them. Rows are written to the disk by and by even if
/// memory is large enough, and who appends faster than the disk can write is slowed down by the
/// system, within the call that writes the row. The directory should be on a local disk; on a
/// network file system every error of the network can be a SIGBUS.
///
/// Linux only: elsewhere the buffer is not made (`std::errc::not_supported`).
struct MappedFile {
  /// A directory, or a name in one at which there is nothing: the file is made in that directory.
  std::filesystem::path path;
};

/// Where the rows of a buffer are.
using Storage = std::variant<Memory, MappedFile>;

}  // namespace reprise
