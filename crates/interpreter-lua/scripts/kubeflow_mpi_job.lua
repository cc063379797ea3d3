-- kubeflow.org MPIJob

function GetComponents(desiredObj)
    local components = {}
    -- Sorted by key.
    for name, of in pairs(at(desiredObj, "spec", "mpiReplicaSpecs") or {}) do
        local lower = name:lower()
        components[#components + 1] = {
            name = lower,
            replicas = number(of.replicas or (lower == "worker" and 0 or 1)),
            replicaRequirements = needs(of.template),
        }
    end
    return components
end

function InterpretHealth(observedObj)
    return filled(at(observedObj, "status", "conditions")) and not is_true(observedObj.status, "Failed")
end

function AggregateStatus(desiredObj, statusItems)
    local list = reports(statusItems)
    if #list == 1 and #statusItems == 1 then
        desiredObj.status = list[1].status
        return desiredObj
    end
    local status, sums, newest = status_of(desiredObj), {}, {}
    for _, item in ipairs(list) do
        for name, of in pairs(item.status.replicaStatuses or {}) do
            sums[name] = sums[name] or { active = 0, failed = 0, succeeded = 0 }
            for _, field in ipairs({ "active", "failed", "succeeded" }) do
                sums[name][field] = sums[name][field] + number(of[field])
            end
        end
        for _, condition in ipairs(item.status.conditions or {}) do
            local known = newest[condition.type]
            local time = condition.lastUpdateTime or condition.lastTransitionTime or ""
            if known == nil or time > (known.lastUpdateTime or known.lastTransitionTime or "") then
                newest[condition.type] = condition
            end
        end
    end
    local conditions = {}
    for _, condition in pairs(newest) do
        conditions[#conditions + 1] = condition
    end
    status.conditions = #conditions > 0 and conditions or status.conditions
    status.replicaStatuses = next(sums) ~= nil and sums or status.replicaStatuses
    status.startTime = pick_time(statusItems, "startTime", true) or status.startTime
    status.completionTime = pick_time(statusItems, "completionTime") or status.completionTime
    return desiredObj
end

function ReflectStatus(observedObj)
    return observedObj.status or {}
end
