function InterpretHealth(o)
  local far = -9223372036854775808
  pcall(os.time, {year = far, month = far, day = far, hour = far, min = far, sec = far})
  pcall(os.date, '%c', far)
  pcall(os.date, '*t', 1e308)
  return os.date('!%c', 0/0) ~= nil
end
