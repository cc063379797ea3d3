-- source.toolkit.fluxcd.io GitRepository, Bucket, HelmChart, HelmRepository, OCIRepository

local of_charts = { ChartPullSucceeded = true, ChartPackageSucceeded = true }

function InterpretHealth(observedObj)
    -- A HelmRepository of OCI charts is only an address: no controller gives it a status.
    if observedObj.kind == "HelmRepository" and at(observedObj, "spec", "type") == "oci" then
        return true
    end
    local ready = condition_of(observedObj.status, "Ready")
    local succeeded = ready.reason == "Succeeded" or (observedObj.kind == "HelmChart" and of_charts[ready.reason or ""] == true)
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
    refer(list, desiredObj, "Secret", at(spec, "verify", "trustedRootSecretRef", "name"))
    refer(list, desiredObj, "Secret", at(spec, "certSecretRef", "name"))
    refer(list, desiredObj, "Secret", at(spec, "proxySecretRef", "name"))
    refer(list, desiredObj, "Secret", at(spec, "sts", "secretRef", "name"))
    refer(list, desiredObj, "Secret", at(spec, "sts", "certSecretRef", "name"))
    refer_account(list, desiredObj, spec.serviceAccountName)
    return list
end
