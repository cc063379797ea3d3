-- kustomize.toolkit.fluxcd.io Kustomization

local texts = { "lastAppliedRevision", "lastAttemptedRevision" }

function InterpretHealth(observedObj)
    local ready = condition_of(observedObj.status, "Ready")
    return ready.status == "True" and ready.reason == "ReconciliationSucceeded"
end

function AggregateStatus(desiredObj, statusItems)
    take_last(desiredObj, statusItems, texts)
    merge_conditions(desiredObj, statusItems)
    observe_generation(desiredObj, statusItems)
    return desiredObj
end

function ReflectStatus(observedObj)
    local fields = { "conditions" }
    copy_list(texts, fields)
    return reflect(observedObj, fields)
end

function Retain(desiredObj, observedObj)
    local suspend = at(observedObj, "spec", "suspend")
    if suspend ~= nil and desiredObj.spec ~= nil then
        desiredObj.spec.suspend = suspend
    end
    return desiredObj
end

function GetDependencies(desiredObj)
    local spec, list = desiredObj.spec or {}, {}
    for _, from in ipairs(at(spec, "postBuild", "substituteFrom") or {}) do
        if from.kind == "ConfigMap" or from.kind == "Secret" then
            refer(list, desiredObj, from.kind, from.name)
        end
    end
    refer(list, desiredObj, "Secret", at(spec, "decryption", "secretRef", "name"))
    refer_account(list, desiredObj, at(spec, "decryption", "serviceAccountName"))
    refer(list, desiredObj, "Secret", at(spec, "kubeConfig", "secretRef", "name"))
    refer(list, desiredObj, "ConfigMap", at(spec, "kubeConfig", "configMapRef", "name"))
    refer_account(list, desiredObj, spec.serviceAccountName)
    return list
end
