-- helm.toolkit.fluxcd.io HelmRelease

-- Each version has some of these.
local texts = {
    "lastAppliedRevision",
    "lastAttemptedRevision",
    "lastAttemptedRevisionDigest",
    "lastAttemptedConfigDigest",
    "lastAttemptedReleaseAction",
    "lastAttemptedValuesChecksum",
    "lastReleaseRevision",
    "helmChart",
    "storageNamespace",
    "history",
}
local counters = { "failures", "installFailures", "upgradeFailures" }

function InterpretHealth(observedObj)
    local ready = condition_of(observedObj.status, "Ready")
    -- Later versions name the action that succeeded: an installation, an upgrade or a test.
    local succeeded = ready.reason == "ReconciliationSucceeded" or observedObj.apiVersion ~= "helm.toolkit.fluxcd.io/v2beta1"
    return ready.status == "True" and succeeded
end

function AggregateStatus(desiredObj, statusItems)
    add_up(desiredObj, statusItems, counters)
    take_last(desiredObj, statusItems, texts)
    merge_conditions(desiredObj, statusItems)
    observe_generation(desiredObj, statusItems)
    return desiredObj
end

function ReflectStatus(observedObj)
    local fields = { "conditions" }
    copy_list(texts, fields)
    copy_list(counters, fields)
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
    for _, from in ipairs(spec.valuesFrom or {}) do
        if from.kind == "ConfigMap" or from.kind == "Secret" then
            refer(list, desiredObj, from.kind, from.name)
        end
    end
    refer(list, desiredObj, "Secret", at(spec, "chart", "spec", "verify", "secretRef", "name"))
    refer(list, desiredObj, "Secret", at(spec, "kubeConfig", "secretRef", "name"))
    refer(list, desiredObj, "ConfigMap", at(spec, "kubeConfig", "configMapRef", "name"))
    refer_account(list, desiredObj, spec.serviceAccountName)
    return list
end
