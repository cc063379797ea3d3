-- Functions shared by the kinds of ray.io; runs after shared.lua.

function worker_groups(cluster)
    return at(cluster, "workerGroupSpecs") or {}
end

function worker_replicas(group)
    return number(group.replicas or group.minReplicas or 0)
end

-- Pods of one replica of a group.
function hosts_of(group)
    return math.max(number(group.numOfHosts or 1), 1)
end

-- The components of a cluster's spec: the head and each worker group.
function ray_components(cluster)
    local components = {
        { name = "ray-head", replicas = 1, replicaRequirements = needs(at(cluster, "headGroupSpec", "template")) },
    }
    for i, group in ipairs(worker_groups(cluster)) do
        components[#components + 1] = {
            name = filled(group.groupName) and group.groupName or "worker-" .. tostring(i - 1),
            replicas = worker_replicas(group) * hosts_of(group),
            replicaRequirements = needs(group.template),
        }
    end
    return components
end

function ray_dependencies(object, cluster, ...)
    local list = pods_refer(object, at(cluster, "headGroupSpec", "template"), ...)
    for _, group in ipairs(worker_groups(cluster)) do
        copy_list(pods_refer(object, group.template), list)
    end
    return list
end
