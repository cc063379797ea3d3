-- source.toolkit.fluxcd.io GitRepository, Bucket, HelmChart, HelmRepository, OCIRepository

function InterpretHealth(observedObj)
    local ready = condition_of(observedObj.status, "Ready")
    local succeeded = ready.reason == "Succeeded" or (observedObj.kind == "HelmChart" and ready.reason == "ChartPullSucceeded")
    return ready.status == "True" and succeeded
end

function AggregateStatus(desiredObj, statusItems)
    take_last(desiredObj, statusItems, { "artifact", "url" })
    merge_conditions(desiredObj, statusItems)
    observe_generation(desiredObj, statusItems)
    return desiredObj
end

function ReflectStatus(observedObj)
    return reflect(observedObj, { "artifact", "url", "conditions" })
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
    refer(list, desiredObj, "Secret", at(spec, "secretRef", "name"))
    refer(list, desiredObj, "Secret", at(spec, "verify", "secretRef", "name"))
    refer(list, desiredObj, "Secret", at(spec, "certSecretRef", "name"))
    refer_account(list, desiredObj, spec.serviceAccountName)
    return list
end
