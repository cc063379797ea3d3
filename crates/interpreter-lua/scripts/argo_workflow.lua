-- argoproj.io Workflow

function GetReplicas(desiredObj)
    local spec = desiredObj.spec or {}
    local pod = { spec = { affinity = spec.affinity, nodeSelector = spec.nodeSelector, tolerations = spec.tolerations } }
    return number(spec.parallelism or 1), needs(pod)
end

function ReviseReplica(desiredObj, desiredReplica)
    if at(desiredObj, "spec", "parallelism") ~= nil then
        desiredObj.spec.parallelism = desiredReplica
    end
    return desiredObj
end

function InterpretHealth(observedObj)
    local phase = at(observedObj, "status", "phase")
    return filled(phase) and phase ~= "Error" and phase ~= "Failed"
end

function Retain(desiredObj, observedObj)
    local suspend = at(observedObj, "spec", "suspend")
    if suspend ~= nil and desiredObj.spec ~= nil then
        desiredObj.spec.suspend = suspend
    end
    if observedObj.status ~= nil then
        desiredObj.status = observedObj.status
    end
    return desiredObj
end

function GetDependencies(desiredObj)
    local spec, list = desiredObj.spec or {}, {}
    refer_account(list, desiredObj, at(spec, "executor", "serviceAccountName"))
    refer_account(list, desiredObj, spec.serviceAccountName)
    for _, secret in ipairs(spec.imagePullSecrets or {}) do
        refer(list, desiredObj, "Secret", secret.name)
    end
    for _, volume in ipairs(spec.volumes or {}) do
        refer(list, desiredObj, "ConfigMap", at(volume, "configMap", "name"))
        refer(list, desiredObj, "Secret", at(volume, "secret", "secretName") or at(volume, "secret", "name"))
        refer(list, desiredObj, "PersistentVolumeClaim", at(volume, "persistentVolumeClaim", "claimName"))
    end
    for _, claim in ipairs(spec.volumeClaimTemplates or {}) do
        refer(list, desiredObj, "PersistentVolumeClaim", at(claim, "metadata", "name"))
    end
    return list
end
