-- batch.volcano.sh Job

local counters = { "pending", "running", "succeeded", "failed", "terminating", "unknown", "retryCount", "minAvailable" }
local healthy = {
    Running = true,
    Completed = true,
    Pending = true,
    Aborting = true,
    Aborted = true,
    Restarting = true,
    Completing = true,
    Terminating = true,
    Terminated = true,
}

function GetComponents(desiredObj)
    local components = {}
    for i, task in ipairs(at(desiredObj, "spec", "tasks") or {}) do
        components[i] = {
            name = filled(task.name) and task.name or "task-" .. tostring(i - 1),
            -- Volcano sets an absent minAvailable to the replicas.
            replicas = number(task.minAvailable or task.replicas or 1),
            replicaRequirements = needs(task.template),
        }
    end
    return components
end

function InterpretHealth(observedObj)
    return healthy[at(observedObj, "status", "state", "phase") or ""] == true
end

-- Parses a duration such as 90s or 1h2m3.5s; returns seconds.
local function seconds(duration)
    local all = 0
    for amount, unit in (duration or ""):gmatch("([%d%.]+)(%a+)") do
        local of = ({ h = 3600, m = 60, s = 1, ms = 0.001 })[unit] or 0
        all = all + (tonumber(amount) or 0) * of
    end
    return all
end

function AggregateStatus(desiredObj, statusItems)
    local list = reports(statusItems)
    if #list == 1 and #statusItems == 1 then
        desiredObj.status = list[1].status
        return desiredObj
    end
    add_up(desiredObj, statusItems, counters)
    local status = desiredObj.status
    local tasks, version, duration, completed, failed = {}, 0, nil, 0, false
    for _, item in ipairs(list) do
        for name, of in pairs(item.status.taskStatusCount or {}) do
            tasks[name] = tasks[name] or { phase = {} }
            for phase, count in pairs(of.phase or {}) do
                tasks[name].phase[phase] = number(tasks[name].phase[phase]) + number(count)
            end
        end
        version = math.max(version, number(item.status.version))
        if filled(item.status.runningDuration) and (duration == nil or seconds(item.status.runningDuration) > seconds(duration)) then
            duration = item.status.runningDuration
        end
        local phase = at(item.status, "state", "phase")
        failed = failed or phase == "Failed"
        completed = completed + (phase == "Completed" and 1 or 0)
    end
    status.taskStatusCount = next(tasks) ~= nil and tasks or nil
    status.version = version > 0 and version or nil
    status.runningDuration = duration
    if failed then
        status.state = { phase = "Failed" }
    elseif completed > 0 and completed == #statusItems then
        status.state = { phase = "Completed" }
    end
    return desiredObj
end

function ReflectStatus(observedObj)
    return observedObj.status or {}
end
