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

-- The one namespace that a SidecarSet selects, which has none itself; nil for several or all.
local function selected_namespace(spec)
    -- Only v1alpha1 has the field.
    if filled(spec.namespace) then
        return spec.namespace
    end
    return at(spec, "namespaceSelector", "matchLabels", "kubernetes.io/metadata.name")
end

function GetDependencies(desiredObj)
    local spec, list = desiredObj.spec or {}, {}
    local namespace = selected_namespace(spec)
    -- Pods of several namespaces use objects of their own namespaces, which other references bring.
    if namespace == nil then
        return list
    end
    local pod = {
        spec = {
            containers = spec.containers,
            initContainers = spec.initContainers,
            volumes = spec.volumes,
            imagePullSecrets = spec.imagePullSecrets,
        },
    }
    for _, reference in ipairs(kube.getPodDependencies(pod, namespace) or {}) do
        if reference.kind == "ConfigMap" or reference.kind == "Secret" then
            list[#list + 1] = reference
        end
    end
    return list
end
