-- kyverno.io ClusterPolicy and Policy

function InterpretHealth(observedObj)
    local status = observedObj.status
    if at(status, "ready") ~= nil then
        return status.ready == true
    end
    local ready = condition_of(status, "Ready")
    return ready.status == "True" and ready.reason == "Succeeded"
end

function AggregateStatus(desiredObj, statusItems)
    take_last(desiredObj, statusItems, { "ready", "autogen" })
    local status, counts = status_of(desiredObj), {}
    for _, item in ipairs(reports(statusItems)) do
        for name, count in pairs(item.status.rulecount or {}) do
            counts[name] = number(counts[name]) + number(count)
        end
    end
    status.rulecount = next(counts) ~= nil and counts or status.rulecount
    merge_conditions(desiredObj, statusItems)
    return desiredObj
end

function ReflectStatus(observedObj)
    local status = {}
    for _, field in ipairs({ "ready", "autogen", "rulecount", "conditions" }) do
        status[field] = at(observedObj, "status", field)
    end
    return status
end
