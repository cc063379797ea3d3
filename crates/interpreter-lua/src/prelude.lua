-- Runs once in each state, before any script: takes what a script may use, and returns the maker of environments. Each call
-- of a script gets a fresh one, so that nothing leaks from one call to the next.
local host = ...

local error, floor, format, getmetatable, ipairs, next, pcall, raw_tostring, select, sort, type, unpack, xpcall =
    error, math.floor, string.format, getmetatable, ipairs, next, pcall, tostring, select, table.sort, type, unpack, xpcall

local function unsupported(name)
    return function()
        error("call function " .. name .. " is not supported in karmada customized resourceinterpreter.", 2)
    end
end

-- An error that the script caught is a text, also where a library raised it; a spent budget can't be caught.
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

-- Whole numbers print as such, and nothing prints an address: that differs from run to run.
local function tostring(value)
    local kind = type(value)
    if kind == "number" and value == floor(value) and value > -1e18 and value < 1e18 then
        return format("%.0f", value)
    elseif kind == "table" or kind == "function" then
        return kind
    end
    return raw_tostring(value)
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

-- In the order of the keys, so that a script's answer does not hang on how a table is stored.
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

-- The library's loops over long lists count no steps: these do.
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

-- Texts given to the library are bounded.
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

-- What is no text and no number is written as tostring does, where the library would refuse it.
local function written(template, ...)
    local values, count = { ... }, select("#", ...)
    for i = 1, count do
        local kind = type(values[i])
        if kind ~= "string" and kind ~= "number" then
            values[i] = tostring(values[i])
        end
    end
    return format(template, unpack(values, 1, count))
end

local strings = {
    byte = bounded(string.byte), char = string.char, find = host.find, format = bounded(written), gmatch = host.gmatch,
    len = string.len, lower = bounded(string.lower), match = host.match, reverse = bounded(string.reverse),
    sub = bounded(string.sub), upper = bounded(string.upper),
    dump = unsupported("string.dump"), gsub = unsupported("string.gsub"), rep = unsupported("string.rep"),
}
local tables = { concat = table.concat, insert = insert, maxn = table.maxn, remove = remove, sort = counted_sort }
local maths = {}
for name, value in next, math do
    maths[name] = value
end
-- Chance would make two runs differ.
maths.random, maths.randomseed = unsupported("math.random"), unsupported("math.randomseed")
local times = { time = host.time, date = host.date }

local base = {
    assert = assert, error = error, ipairs = ipairs, next = next, pairs = pairs, print = host.print, select = select,
    tonumber = tonumber, tostring = tostring, type = type, unpack = unpack, _VERSION = _VERSION,
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
