#pragma once

namespace bench {

/// Adds the benchmarks of the loads that others have published (docs/records.md). `quick`: a tenth
/// of the sizes and a few rounds, to see that they run.
void add_records(bool quick);

}  // namespace bench
