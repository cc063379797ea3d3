package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// workload is a kind with replicas of one pod template, and a switch that belongs to the member.
type workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              workloadSpec   `json:"spec"`
	Status            workloadStatus `json:"status,omitempty"`
}

type workloadSpec struct {
	Replicas *int32                 `json:"replicas,omitempty"`
	Template corev1.PodTemplateSpec `json:"template"`
	Paused   bool                   `json:"paused,omitempty"`
}

type workloadStatus struct {
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// Note is of the member only: it is not reported.
	Note string `json:"note,omitempty"`
}

// ensemble is a kind with several pod templates.
type ensemble struct {
	Spec struct {
		Parts []struct {
			Name     string                 `json:"name"`
			Replicas int32                  `json:"replicas"`
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"parts"`
	} `json:"spec"`
}

// interpretWorkload answers every operation of the configuration.
func interpretWorkload(request *interpreterRequest) interpreterResponse {
	if request.Operation == "InterpretComponent" {
		return interpretComponents(request)
	}
	var object workload
	if err := json.Unmarshal(request.Object.Raw, &object); err != nil {
		return errored(http.StatusBadRequest, err)
	}
	switch request.Operation {
	case "InterpretReplica":
		return interpretReplicas(&object)
	case "ReviseReplica":
		if request.DesiredReplicas == nil {
			return errored(http.StatusBadRequest, errors.New("nil pointer"))
		}
		object.Spec.Replicas = request.DesiredReplicas
		return patched(request, object)
	case "Retain":
		var observed workload
		if request.ObservedObject == nil {
			return errored(http.StatusBadRequest, errors.New("nil observedObject in resource retain operation"))
		}
		if err := json.Unmarshal(request.ObservedObject.Raw, &observed); err != nil {
			return errored(http.StatusBadRequest, err)
		}
		object.Spec.Paused = observed.Spec.Paused
		return patched(request, object)
	case "AggregateStatus":
		return aggregateStatus(request, &object)
	case "InterpretStatus":
		return interpretStatus(&object)
	case "InterpretHealth":
		response := succeeded()
		healthy := object.Spec.Replicas != nil && object.Status.ReadyReplicas >= *object.Spec.Replicas
		response.Healthy = &healthy
		return response
	case "InterpretDependency":
		return interpretDependencies(request, &object)
	}
	return errored(http.StatusBadRequest, fmt.Errorf("wrong request operation type: %s", request.Operation))
}

func interpretReplicas(object *workload) interpreterResponse {
	if len(object.Spec.Template.Spec.Containers) == 0 {
		return errored(http.StatusBadRequest, errors.New("the template has no containers"))
	}
	response := succeeded()
	response.Replicas = object.Spec.Replicas
	response.ReplicaRequirements = &replicaRequirements{ResourceRequest: requests(&object.Spec.Template)}
	return response
}

func interpretComponents(request *interpreterRequest) interpreterResponse {
	var object ensemble
	if err := json.Unmarshal(request.Object.Raw, &object); err != nil {
		return errored(http.StatusBadRequest, err)
	}
	response := succeeded()
	for i := range object.Spec.Parts {
		part := &object.Spec.Parts[i]
		response.Components = append(response.Components, component{
			Name:                part.Name,
			Replicas:            part.Replicas,
			ReplicaRequirements: &componentRequirements{ResourceRequest: requests(&part.Template)},
		})
	}
	return response
}

func requests(template *corev1.PodTemplateSpec) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, container := range template.Spec.Containers {
		for name, amount := range container.Resources.Requests {
			total := sum[name]
			total.Add(amount)
			sum[name] = total
		}
	}
	return sum
}

func aggregateStatus(request *interpreterRequest, object *workload) interpreterResponse {
	object.Status = workloadStatus{}
	for _, item := range request.AggregatedStatus {
		if item.Status == nil {
			continue
		}
		var status workloadStatus
		if err := json.Unmarshal(item.Status.Raw, &status); err != nil {
			return errored(http.StatusInternalServerError, err)
		}
		object.Status.ReadyReplicas += status.ReadyReplicas
	}
	return patched(request, object)
}

func interpretStatus(object *workload) interpreterResponse {
	raw, err := json.Marshal(workloadStatus{ReadyReplicas: object.Status.ReadyReplicas})
	if err != nil {
		return errored(http.StatusInternalServerError, err)
	}
	response := succeeded()
	response.RawStatus = &runtime.RawExtension{Raw: raw}
	return response
}

func interpretDependencies(request *interpreterRequest, object *workload) interpreterResponse {
	response := succeeded()
	for _, container := range object.Spec.Template.Spec.Containers {
		for _, source := range container.EnvFrom {
			if source.ConfigMapRef == nil {
				continue
			}
			response.Dependencies = append(response.Dependencies, dependentObjectReference{
				APIVersion: "v1",
				Kind:       "ConfigMap",
				Namespace:  request.Namespace,
				Name:       source.ConfigMapRef.Name,
			})
		}
	}
	return response
}
