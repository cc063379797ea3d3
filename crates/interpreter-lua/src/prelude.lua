-- Runs once in each state, before any script: takes the allowed functions, and returns the constructor of environments. Each call
-- of a script gets a fresh one, so that nothing leaks from one call to the next.
local host = ...

local error, floor, format, getmetatable, ipairs, next, pcall, raw_tostring, select, sort, tonumber, type, unpack, xpcall =
    error, math.floor, string.format, getmetatable, ipairs, next, pcall, tostring, select, table.sort, tonumber, type,
    unpack, xpcall

local function unsupported(name)
    return function()
        error("call function " .. name .. " is not supported in karmada customized resourceinterpreter.", 2)
    end
end

-- Caught errors are texts, also those of the library; an exceeded budget can't be caught.
local function caught(ok, ...)
    if ok then
        return ok, ...
    end
    host.check()
    local problem = ...
    if type(problem) == "userdata" then
        problem = host.text(problem)
    end
    return ok, problem
end

-- Whole numbers print without fraction, and no addresses are printed: they differ from run to run.
local function tostring(value)
    local kind = type(value)
    if kind == "number" and value == floor(value) and value > -1e18 and value < 1e18 then
        return format("%.0f", value)
    elseif kind == "table" or kind == "function" then
        return kind
    end
    return raw_tostring(value)
end

-- The engine converts numbers to C integers without a check, and calculates with them: out of range, both are undefined.
-- No number that a script passes to the library reaches the engine without one of the next two functions.
local INTEGER_MAX = 2147483647

local function out_of_range(position, name, level)
    error("bad argument #" .. position .. " to '" .. name .. "' (number out of range)", level + 1)
end

-- Returns the argument at `position` as a number between `low` and `high`; nil stays nil. Errors are the caller's.
local function integer(value, position, name, low, high)
    if value == nil then
        return nil
    end
    local number = tonumber(value)
    if number == nil then
        error("bad argument #" .. position .. " to '" .. name .. "' (number expected, got " .. type(value) .. ")", 3)
    elseif not (number >= (low or -INTEGER_MAX) and number <= (high or INTEGER_MAX)) then
        out_of_range(position, name, 3)
    end
    return number
end

-- Arguments `first` to `last` of the function must be integers of the engine.
local function checked(name, call, first, last, low, high)
    return function(...)
        for i = first, last do
            integer(select(i, ...), i, name, low, high)
        end
        return call(...)
    end
end

-- The results of one call, at most: the engine has no room for more.
local UNPACKED_MAX = 7900

local function checked_unpack(list, first, last)
    if type(list) ~= "table" then
        error("bad argument #1 to 'unpack' (table expected, got " .. type(list) .. ")", 2)
    end
    first = integer(first, 2, "unpack") or 1
    last = integer(last, 3, "unpack") or #list
    if last - first >= UNPACKED_MAX then
        error("too many results to unpack", 2)
    end
    return unpack(list, first, last)
end

local function checked_select(at, ...)
    if at ~= "#" then
        integer(at, 1, "select")
    end
    return select(at, ...)
end

local function checked_error(message, level)
    level = integer(level, 2, "error", 0, 100) or 1
    error(message, level == 0 and 0 or level + 1)
end

local function after(from, i)
    i = i + 1
    local value = from[i]
    if value ~= nil then
        return i, value
    end
end

local function checked_ipairs(from)
    if type(from) ~= "table" then
        error("bad argument #1 to 'ipairs' (table expected, got " .. type(from) .. ")", 2)
    end
    return after, from, 0
end

-- Numbers before texts, each ascending.
local function ordered(a, b)
    local of_a, of_b = type(a), type(b)
    if of_a ~= of_b then
        return of_a < of_b
    elseif of_a == "number" or of_a == "string" then
        return a < b
    end
    return false
end

-- Iterates in the order of keys, so that results do not depend on the storage of tables.
local function pairs(from)
    if type(from) ~= "table" then
        error("bad argument #1 to 'pairs' (table expected, got " .. type(from) .. ")", 2)
    end
    local keys, n, i = {}, 0, 0
    for key in next, from do
        n = n + 1
        keys[n] = key
    end
    sort(keys, ordered)
    return function()
        while i < n do
            i = i + 1
            local value = from[keys[i]]
            if value ~= nil then
                return keys[i], value
            end
        end
    end, from, nil
end

-- The library's loops over long lists do not count steps; these do.
local function insert(list, ...)
    local n, count = #list, select("#", ...)
    if count == 1 then
        list[n + 1] = (...)
        return
    elseif count ~= 2 then
        error("wrong number of arguments to 'insert'", 2)
    end
    local at, value = ...
    for i = n, at, -1 do
        list[i + 1] = list[i]
    end
    list[at] = value
end

local function remove(list, at)
    local n = #list
    at = at or n
    if n == 0 or at < 1 or at > n then
        return nil
    end
    local value = list[at]
    for i = at, n - 1 do
        list[i] = list[i + 1]
    end
    list[n] = nil
    return value
end

local function counted_sort(list, before)
    return sort(list, before and function(a, b)
        return before(a, b)
    end or function(a, b)
        return a < b
    end)
end

-- Lengths of texts for the library are limited.
local function bounded(call)
    return function(...)
        for i = 1, select("#", ...) do
            local value = select(i, ...)
            if type(value) == "string" and #value > host.text_max then
                error("a text given to the string library has more than " .. tostring(host.text_max) .. " bytes", 2)
            end
        end
        return call(...)
    end
end

-- Conversions that print a number as an integer, with the least that each takes.
local LONG_MIN, LONG_MAX = -9007199254740992, 9007199254740992
local INTEGERS = { c = 0, d = LONG_MIN, i = LONG_MIN, o = 0, u = 0, x = 0, X = 0 }

-- Values other than texts and numbers are formatted by tostring; the library would refuse them.
local function written(template, ...)
    local values, count = { ... }, select("#", ...)
    for i = 1, count do
        local kind = type(values[i])
        if kind ~= "string" and kind ~= "number" then
            values[i] = tostring(values[i])
        end
    end
    if count > UNPACKED_MAX then
        error("too many arguments to 'format'", 2)
    end
    local i = 0
    for conversion in host.gmatch(template, "%%[^%a%%]*([%a%%])") do
        if conversion ~= "%" then
            i = i + 1
            local low = INTEGERS[conversion]
            if low ~= nil and values[i] ~= nil then
                integer(values[i], i + 1, "format", low, conversion == "c" and 255 or LONG_MAX)
            end
        end
    end
    return format(template, unpack(values, 1, count))
end

local function char(...)
    for i = 1, select("#", ...) do
        integer(select(i, ...), i, "char", 0, 255)
    end
    return string.char(...)
end

local strings = {
    byte = bounded(checked("byte", string.byte, 2, 3)), char = char, find = host.find, format = bounded(written),
    gmatch = host.gmatch, len = string.len, lower = bounded(string.lower), match = host.match,
    reverse = bounded(string.reverse), sub = bounded(checked("sub", string.sub, 2, 3)), upper = bounded(string.upper),
    dump = unsupported("string.dump"), gsub = unsupported("string.gsub"), rep = unsupported("string.rep"),
}
local tables = { concat = checked("concat", table.concat, 3, 4), insert = insert, maxn = table.maxn, remove = remove, sort = counted_sort }
local maths = {}
for name, value in next, math do
    maths[name] = value
end
maths.ldexp = checked("ldexp", math.ldexp, 2, 2)
-- Random numbers would make two runs differ.
maths.random, maths.randomseed = unsupported("math.random"), unsupported("math.randomseed")
local times = { time = host.time, date = host.date }

local base = {
    assert = assert, error = checked_error, ipairs = checked_ipairs, next = next, pairs = pairs, print = host.print,
    select = checked_select, tonumber = checked("tonumber", tonumber, 2, 2), tostring = tostring, type = type,
    unpack = checked_unpack, _VERSION = _VERSION,
    pcall = function(...)
        return caught(pcall(...))
    end,
    xpcall = function(call, handler)
        return caught(xpcall(call, function(problem)
            host.check()
            if type(problem) == "userdata" then
                problem = host.text(problem)
            end
            return handler(problem)
        end))
    end,
}
for _, name in ipairs({
    "collectgarbage", "dofile", "getfenv", "getmetatable", "load", "loadfile", "loadstring", "rawequal", "rawget", "rawset",
    "setfenv", "setmetatable", "module", "newproxy",
}) do
    base[name] = unsupported(name)
end

-- ("text"):upper() finds the same functions, and no script can reach this table to change it.
local methods = {}
for name, value in next, strings do
    methods[name] = value
end
getmetatable("").__index = methods

local function copy(from)
    local to = {}
    for name, value in next, from do
        to[name] = value
    end
    return to
end

return function()
    local env = copy(base)
    local modules = {
        kube = copy(host.kube), math = copy(maths), os = copy(times), string = copy(strings), table = copy(tables),
    }
    env.math, env.os, env.string, env.table = modules.math, modules.os, modules.string, modules.table
    env.package = { loaded = modules, preload = {}, loadlib = unsupported("package.loadlib") }
    env.require = function(name)
        local found = modules[name]
        if found == nil then
            error("module '" .. tostring(name) .. "' is not there: kube, math, os, string and table are", 2)
        end
        return found
    end
    env._G = env
    return env
end
