#pragma once

#include <filesystem>
#include <variant>

namespace reprise {

/// Keeps everything in main memory, which is taken as steps arrive. The default.
struct Memory {};

/// Keeps the rows, by far the largest part of most buffers, in a file that is mapped into memory:
/// for buffers larger than memory. The system keeps rows that are in use in memory, as far as they
/// fit, writes other rows to the file, and reads a row back when it is drawn. All other data stay
/// in memory: weights and priorities, bookkeeping (`Stats::touched_bytes`), and recurrent states.
///
/// The file is only this buffer's scratch space. The file has no name (`O_TMPFILE`; on file systems
/// without it the name is removed as soon as the file is made). So nothing is left of the file once
/// the buffer is gone or the process has ended in any way, and any number of buffers may have the
/// same path. `df` shows the file's space, but `ls` does not show the file; a forked child holds
/// the space too, until the child ends or calls exec. `ReplayBuffer::save` saves what has to
/// outlive the process.
///
/// The buffer allocates disk space before it writes there, so a full disk is an exception and not a
/// signal. The constructor allocates the space that capacity_steps steps take if episodes are much
/// longer than windows. More space is allocated chunk by chunk, because each writer keeps a chunk
/// open, and short episodes take more rows for each step. A `commit` that gets no space throws, its
/// step stays as it was, and the call can be repeated. `Stats::file_bytes` has the space taken.
///
/// Some faults raise a signal, because they cannot be an exception. On a file system that copies on
/// write (btrfs, ZFS) rewriting a row takes new space, so a full disk raises SIGBUS on the thread
/// that reads or writes the row. So does an error of the device, or another program that shortens
/// the file through /proc. If RLIMIT_FSIZE is set, the system sends SIGXFSZ along with the error;
/// ignore that signal. In a forked child, where no call of the buffer works, the rows of
/// `Writer::now` and `next` are not mapped, and using them raises SIGSEGV.
///
/// Cost: with all rows in the page cache the same work as with `Memory`, on small pages. A row that
/// is not in the page cache costs each draw a read from the disk. A sampler that had to read from
/// the disk asks for all rows of its next batch at once before it copies them. The system writes
/// rows to the disk at some time even if memory is large enough, and slows down a writer that
/// appends faster than the disk can write, within the call that writes the row. The directory
/// should be on a local disk; on a network file system every error of the network can be a SIGBUS.
struct MappedFile {
  /// A directory, in which the file is made, or a path at which nothing exists, in whose parent
  /// directory the file is made.
  std::filesystem::path path;
};

/// The memory of a buffer's rows.
using Storage = std::variant<Memory, MappedFile>;

}  // namespace reprise
