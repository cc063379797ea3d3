-- Functions shared by the scripts in this folder. Runs before each of them, in the same environment.
kube = require("kube")

-- The value of a counter, 0 if absent.
function number(value)
    return tonumber(value) or 0
end

-- The value at these keys, nil if one is missing.
function at(value, ...)
    for i = 1, select("#", ...) do
        if type(value) ~= "table" then
            return nil
        end
        value = value[select(i, ...)]
    end
    return value
end

-- The reports that exist.
function reports(items)
    local list = {}
    for _, item in ipairs(items or {}) do
        if item.status ~= nil then
            list[#list + 1] = item
        end
    end
    return list
end

-- The status of the template, created if absent.
function status_of(object)
    if object.status == nil then
        object.status = {}
    end
    return object.status
end

function filled(value)
    return value ~= nil and value ~= "" and (type(value) ~= "table" or next(value) ~= nil)
end

-- Sums of counters over the reports.
function add_up(object, items, fields)
    local status = status_of(object)
    for _, field in ipairs(fields) do
        local sum = 0
        for _, item in ipairs(reports(items)) do
            sum = sum + number(item.status[field])
        end
        status[field] = sum
    end
end

-- The same, only for counters that some report has: not every version of a kind has all of them.
function add_up_reported(object, items, fields)
    for _, field in ipairs(fields) do
        local told = false
        for _, item in ipairs(reports(items)) do
            told = told or item.status[field] ~= nil
        end
        if told then
            add_up(object, items, { field })
        end
    end
end

-- Sets each field from the last report that has it; other fields are kept.
function take_last(object, items, fields)
    local status = status_of(object)
    for _, field in ipairs(fields) do
        for _, item in ipairs(reports(items)) do
            if filled(item.status[field]) then
                status[field] = item.status[field]
            end
        end
    end
end

-- The latest of times, or the earliest with sign -1; times are texts in sort order.
function pick_time(items, field, earliest)
    local found = nil
    for _, item in ipairs(reports(items)) do
        local time = item.status[field]
        if filled(time) and (found == nil or (earliest and time < found) or (not earliest and time > found)) then
            found = time
        end
    end
    return found
end

-- True if every report is of the current template; then its generation is observed.
function observe_generation(object, items)
    local generation = number(at(object, "metadata", "generation"))
    for _, item in ipairs(items or {}) do
        local status = item.status
        if
            status == nil
            or number(status.resourceTemplateGeneration) ~= generation
            or number(status.generation) ~= number(status.observedGeneration)
        then
            return
        end
    end
    status_of(object).observedGeneration = generation
end

-- Some fields of a status, with the two generations that show which template it observes.
function reflect(object, fields)
    local status, from = {}, object.status
    if from == nil then
        return status
    end
    for _, field in ipairs(fields) do
        status[field] = from[field]
    end
    status.observedGeneration = from.observedGeneration
    status.generation = at(object, "metadata", "generation")
    local of_template = at(object, "metadata", "annotations", "resourcetemplate.karmada.io/generation")
    status.resourceTemplateGeneration = tonumber(of_template)
    return status
end

-- The condition of a type, an empty one if there is none.
function condition_of(status, kind)
    for _, condition in ipairs(at(status, "conditions") or {}) do
        if condition.type == kind then
            return condition
        end
    end
    return {}
end

function is_true(status, kind)
    return condition_of(status, kind).status == "True"
end

-- A message with the cluster that reported it. A message that is no text is no reason to fail.
local function message_of(item, condition)
    local message = condition.message
    if message == nil or type(message) == "table" then
        message = ""
    end
    return item.clusterName .. "=" .. tostring(message)
end

local badness = { True = 1, Unknown = 2, False = 3 }

-- Conditions of all clusters, one for each type: of the worst status, which the message tells for each cluster that has
-- it. For kinds whose schema declares conditions as a map by type. `get` returns the conditions of a status.
function conditions_by_type(items, get)
    local merged, by_type = {}, {}
    for _, item in ipairs(reports(items)) do
        for _, condition in ipairs(get(item.status) or {}) do
            local known, name = nil, tostring(condition.type)
            if by_type[name] ~= nil then
                known = merged[by_type[name]]
            end
            local worse = known ~= nil and (badness[condition.status] or 0) - (badness[known.status] or 0)
            if worse == 0 then
                known.message = known.message .. ", " .. message_of(item, condition)
            elseif known == nil or worse > 0 then
                local copy = {}
                for key, value in pairs(condition) do
                    copy[key] = value
                end
                copy.message = message_of(item, condition)
                by_type[name] = by_type[name] or #merged + 1
                merged[by_type[name]] = copy
            end
        end
    end
    return merged
end

-- The conditions of all clusters, merged by type and status: the message names each cluster.
function merge_conditions(object, items)
    local merged, by_name = {}, {}
    for _, item in ipairs(reports(items)) do
        for _, condition in ipairs(item.status.conditions or {}) do
            local name = tostring(condition.type) .. "/" .. tostring(condition.status)
            local message = message_of(item, condition)
            local known = by_name[name]
            if known ~= nil then
                known.message = known.message .. ", " .. message
            else
                local copy = {}
                for key, value in pairs(condition) do
                    copy[key] = value
                end
                copy.message = message
                by_name[name] = copy
                merged[#merged + 1] = copy
            end
        end
    end
    if #merged > 0 then
        status_of(object).conditions = merged
    end
end

-- Sets a condition. An unchanged one keeps its time, so that the same reports lead to the same status.
function set_condition(object, wanted)
    local status = status_of(object)
    local conditions = status.conditions or {}
    local now = os.date("!%Y-%m-%dT%H:%M:%SZ")
    for i, condition in ipairs(conditions) do
        if condition.type == wanted.type then
            wanted.lastTransitionTime = condition.status == wanted.status and condition.lastTransitionTime or now
            for key, value in pairs(condition) do
                if wanted[key] == nil then
                    wanted[key] = value
                end
            end
            conditions[i] = wanted
            status.conditions = conditions
            return
        end
    end
    wanted.lastTransitionTime = now
    conditions[#conditions + 1] = wanted
    status.conditions = conditions
end

-- Takes back a condition that no report has any more. Without a report the last known state stays.
function unset_condition(object, items, kind, reason)
    if #reports(items) > 0 and is_true(object.status, kind) then
        set_condition(object, { type = kind, status = "False", reason = reason, message = "" })
    end
end

-- The clusters whose report has a condition.
function clusters_with(items, kind)
    local clusters = {}
    for _, item in ipairs(reports(items)) do
        if is_true(item.status, kind) then
            clusters[#clusters + 1] = item.clusterName
        end
    end
    return clusters
end

-- A reference for GetDependencies; none without a name.
function refer(list, object, kind, name)
    if filled(name) then
        list[#list + 1] = { apiVersion = "v1", kind = kind, namespace = at(object, "metadata", "namespace"), name = name }
    end
end

function refer_account(list, object, name)
    if name ~= "default" then
        refer(list, object, "ServiceAccount", name)
    end
end

-- The dependencies of pod templates in one list.
function pods_refer(object, ...)
    local list = {}
    for i = 1, select("#", ...) do
        local template = select(i, ...)
        if template ~= nil then
            for _, reference in ipairs(kube.getPodDependencies(template, at(object, "metadata", "namespace")) or {}) do
                list[#list + 1] = reference
            end
        end
    end
    return list
end

function needs(template)
    if template == nil then
        return nil
    end
    return kube.accuratePodRequirements(template)
end

-- The larger of two quantities, as text.
function larger(a, b)
    if a == nil then
        return b
    elseif b == nil then
        return a
    end
    return kube.getResourceQuantity(a) >= kube.getResourceQuantity(b) and a or b
end

function copy_list(from, to)
    for _, value in ipairs(from or {}) do
        to[#to + 1] = value
    end
end
