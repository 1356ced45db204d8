#include <unistd.h>
#include <unwind.h>

/// While the interpreter ends, asking for the GIL in any other thread calls pthread_exit, whose
/// forced unwind runs the destructors of every frame, which drop references without the GIL, and
/// aborts the process where it meets a noexcept function or a catch (...). The unwinder asks each
/// frame's personality routine, the innermost first. The linker's --wrap gives all C++ frames of
/// this module the one below (see python/CMakeLists.txt): a thread that is being ended sleeps in
/// its innermost frame of the module, before anything is destroyed, until the process is gone, as
/// from Python 3.14 on. Exceptions of C++ are no forced unwinds.
extern "C" {

_Unwind_Reason_Code reprise_real_personality(
    int version, _Unwind_Action actions, _Unwind_Exception_Class type, _Unwind_Exception* thrown,
    _Unwind_Context* frame) __asm__("__real___gxx_personality_v0");

[[gnu::used]] _Unwind_Reason_Code reprise_personality(
    int version, _Unwind_Action actions, _Unwind_Exception_Class type, _Unwind_Exception* thrown,
    _Unwind_Context* frame) __asm__("__wrap___gxx_personality_v0");

_Unwind_Reason_Code reprise_personality(int version, _Unwind_Action actions,
                                        _Unwind_Exception_Class type, _Unwind_Exception* thrown,
                                        _Unwind_Context* frame) {
  if ((actions & _UA_FORCE_UNWIND) != 0) {
    for (;;) {
      ::pause();
    }
  }
  return reprise_real_personality(version, actions, type, thrown, frame);
}

}  // extern "C"
