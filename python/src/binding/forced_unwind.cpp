#include <unistd.h>
#include <unwind.h>

/// While the interpreter ends, any other thread that asks for the GIL is ended by pthread_exit. Its
/// forced unwind runs the destructors of every frame, which would drop references without the GIL,
/// and it aborts the process at a noexcept function or a catch (...). The unwinder asks the
/// personality routine of each frame, the innermost first. The linker's --wrap gives all C++ frames
/// of this module the routine below (see python/CMakeLists.txt). So a thread that is being ended
/// sleeps in its innermost frame of the module, before anything is destroyed, until the process is
/// gone. Python does the same from 3.14 on. C++ exceptions are no forced unwinds.
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
