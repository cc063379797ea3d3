-- apps.kruise.io SidecarSet

local counters = { "matchedPods", "updatedPods", "readyPods" }

function GetReplicas(desiredObj)
    return 0, nil
end

function InterpretHealth(observedObj)
    local matched = number(at(observedObj, "status", "matchedPods"))
    return matched == 0 or number(at(observedObj, "status", "updatedPods")) == matched
end

function AggregateStatus(desiredObj, statusItems)
    add_up(desiredObj, statusItems, counters)
    return desiredObj
end

function ReflectStatus(observedObj)
    local status = {}
    for _, field in ipairs(counters) do
        status[field] = at(observedObj, "status", field)
    end
    return status
end

function Retain(desiredObj, observedObj)
    return desiredObj
end

function GetDependencies(desiredObj)
    local spec = desiredObj.spec or {}
    local pod = { spec = { containers = spec.containers, initContainers = spec.initContainers, volumes = spec.volumes } }
    local list = {}
    -- A SidecarSet has no namespace.
    for _, reference in ipairs(kube.getPodDependencies(pod, spec.namespace) or {}) do
        if reference.kind == "ConfigMap" or reference.kind == "Secret" then
            list[#list + 1] = reference
        end
    end
    return list
end
