from . import not_covered

NstepBuffer = not_covered("NstepBuffer")
dict2buffer = not_covered("dict2buffer")
