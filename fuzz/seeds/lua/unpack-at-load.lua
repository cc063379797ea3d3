local t = {unpack({}, -2147483648, 2147483647)}
function InterpretHealth(o) return true end
