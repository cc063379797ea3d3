-- apps.kruise.io DaemonSet

local counters = {
    "currentNumberScheduled",
    "desiredNumberScheduled",
    "numberAvailable",
    "numberMisscheduled",
    "numberReady",
    "updatedNumberScheduled",
    "numberUnavailable",
}

function InterpretHealth(observedObj)
    local status = observedObj.status or {}
    return number(status.observedGeneration) == number(at(observedObj, "metadata", "generation"))
        and number(status.updatedNumberScheduled) >= number(status.desiredNumberScheduled)
        and number(status.numberAvailable) >= number(status.updatedNumberScheduled)
end

function AggregateStatus(desiredObj, statusItems)
    add_up(desiredObj, statusItems, counters)
    take_last(desiredObj, statusItems, { "daemonSetHash" })
    observe_generation(desiredObj, statusItems)
    return desiredObj
end

function ReflectStatus(observedObj)
    local fields = { "daemonSetHash" }
    copy_list(counters, fields)
    return reflect(observedObj, fields)
end

function GetDependencies(desiredObj)
    return pods_refer(desiredObj, at(desiredObj, "spec", "template"))
end
