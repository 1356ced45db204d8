#pragma once

#include <filesystem>
#include <variant>

namespace reprise {

/// Everything is in main memory, which is taken as steps arrive. The default.
struct Memory {};

/// Keeps the rows, by far the largest part of most buffers, in a file that is mapped into memory:
/// for buffers larger than memory. The system keeps in memory what is used and fits, writes the
/// rest to the file, and reads it back when it is drawn. Everything else stays in memory: weights
/// and priorities, bookkeeping (`Stats::touched_bytes`), and recurrent states.
///
/// The file is only this buffer's scratch space. It has no name (`O_TMPFILE`; on file systems
/// without it the name is removed as soon as the file is made). So nothing is left of it once the
/// buffer is gone or the process has ended in any way, and any number of buffers may name the same
/// place. `df` shows its space, `ls` nothing; a forked child holds the space too, until it ends or
/// calls exec. Save what has to outlive the process: `ReplayBuffer::save`.
///
/// Disk space is allocated before it is written to, so a full disk is an exception and not a
/// signal. When the buffer is made, it allocates what capacity_steps takes while episodes are much
/// longer than windows. The rest is allocated chunk by chunk: each writer keeps a chunk open, and
/// short episodes take more rows for each step. A `commit` that gets no space throws, its step
/// stays as it was, and the call can be repeated. `Stats::file_bytes` has the space taken.
///
/// Some faults cannot be an exception. On a file system that copies on write (btrfs, ZFS) rewriting
/// a row takes new space, so a full disk is a SIGBUS on the thread that reads or writes the row; so
/// is an error of the device, and a file that another program shortens through /proc. If
/// RLIMIT_FSIZE is set, the system sends SIGXFSZ along with the error; ignore that signal. In a
/// forked child, where no call of the buffer works, the rows of `Writer::now` and `next` are not
/// mapped: SIGSEGV.
///
/// Cost: with all rows in the page cache the same work as in memory, on small pages; a row that is
/// not there costs a read from the disk for each draw. A sampler that had to read asks for all rows
/// of its next batch at once before it copies them. The system writes rows to the disk at some time
/// even if memory is large enough, and slows down a writer that appends faster than the disk can
/// write, within the call that writes the row. The directory should be on a local disk; on a
/// network file system every error of the network can be a SIGBUS.
struct MappedFile {
  /// A directory, or a name that does not exist in one: the file is made in that directory.
  std::filesystem::path path;
};

/// The memory of a buffer's rows.
using Storage = std::variant<Memory, MappedFile>;

}  // namespace reprise
