-- policies.kyverno.io policies, whose rules are CEL

local texts = { "autogen", "generated", "lastExecutionTime" }

function InterpretHealth(observedObj)
    return at(observedObj, "status", "conditionStatus", "ready") == true
end

function AggregateStatus(desiredObj, statusItems)
    take_last(desiredObj, statusItems, texts)
    local ready, known = true, false
    for _, item in ipairs(reports(statusItems)) do
        local of = item.status.conditionStatus
        known = known or of ~= nil
        ready = ready and at(of, "ready") == true
    end
    if not known then
        return desiredObj
    end
    local conditions = conditions_by_type(statusItems, function(status)
        return at(status, "conditionStatus", "conditions")
    end)
    local message = nil
    for _, item in ipairs(reports(statusItems)) do
        local of = item.status.conditionStatus or {}
        if of.ready ~= true and filled(of.message) then
            message = (message and message .. ", " or "") .. item.clusterName .. "=" .. tostring(of.message)
        end
    end
    status_of(desiredObj).conditionStatus = {
        ready = ready and #reports(statusItems) == #statusItems,
        message = message,
        conditions = #conditions > 0 and conditions or nil,
    }
    return desiredObj
end

function ReflectStatus(observedObj)
    local status = { conditionStatus = at(observedObj, "status", "conditionStatus") }
    for _, field in ipairs(texts) do
        status[field] = at(observedObj, "status", field)
    end
    return status
end
