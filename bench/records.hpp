#pragma once

namespace bench {

/// Adds the benchmarks of the loads that others have published (docs/records.md). If `quick`, with
/// a tenth of the sizes and a few rounds, which shows only that they run.
void add_records(bool quick);

}  // namespace bench
