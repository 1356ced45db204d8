#include "vocabulary.hpp"

namespace reprise::python {
namespace {

Vocabulary& imported() {
  static auto& made = *new Vocabulary;
  return made;
}

}  // namespace

const Vocabulary& vocabulary() {
  return imported();
}

void init_vocabulary() {
  const nb::module_ types = nb::module_::import_("reprise._vocabulary");
  const nb::module_ memory = nb::module_::import_("reprise._memory");
  imported() = {
      types.attr("Role"),        types.attr("Field"),        types.attr("UpdateResult"),
      types.attr("SaveResult"),  types.attr("SaveProgress"), types.attr("AppendResult"),
      types.attr("Arrays"),      memory.attr("bytes_of"),    memory.attr("attachments_of"),
      memory.attr("tensors_of"), memory.attr("bfloat16_of")};
}

}  // namespace reprise::python
