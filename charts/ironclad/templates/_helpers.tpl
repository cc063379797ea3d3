{{/* Each template renders what `ironclad manifests` prints for the same values; a test compares them. */}}

{{/* Labels by which the Pods are found, which never change. */}}
{{- define "ironclad.labels" -}}
app.kubernetes.io/name: ironclad
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: {{ .Values.mode }}
{{- end }}

{{/* Annotation of what is of the agent of a cluster, as `ironclad register` sets it. */}}
{{- define "ironclad.agentOf" -}}
agent.ironclad.io/agent-of: {{ .Values.agent.clusterName | quote }}
{{- end }}

{{- define "ironclad.image" -}}
{{- $tag := .Values.image.tag | default (printf "v%s" .Chart.AppVersion) -}}
{{- required "image.repository is empty" .Values.image.repository }}{{ ternary "@" ":" (hasPrefix "sha256:" $tag) }}{{ $tag }}
{{- end }}

{{- define "ironclad.account" -}}
{{- .Values.serviceAccount.name | default .Release.Name }}
{{- end }}

{{/* Name of roles, which are of no namespace. */}}
{{- define "ironclad.role" -}}
ironclad:{{ .Release.Namespace }}:{{ .Release.Name }}
{{- end }}

{{/* True if the Pods of mode external use the API server of their own cluster. */}}
{{- define "ironclad.ownCluster" -}}
{{- if not .Values.external.kubeconfigSecret.name }}true{{ end }}
{{- end }}

{{/* Ports, as {"name": number}. */}}
{{- define "ironclad.ports" -}}
{{- $ports := list (dict "name" "metrics" "port" (int .Values.metrics.port)) -}}
{{- if eq .Values.mode "embedded" }}
{{- $ports = prepend $ports (dict "name" "api" "port" (int .Values.embedded.port)) }}
{{- else if eq .Values.mode "external" }}
{{- with .Values.external }}
{{- if .webhooks.enabled }}{{ $ports = append $ports (dict "name" "webhooks" "port" (int .webhooks.port)) }}{{ end }}
{{- if .explain.enabled }}{{ $ports = append $ports (dict "name" "explain" "port" (int .explain.port)) }}{{ end }}
{{- if .metricsAdapter.enabled }}{{ $ports = append $ports (dict "name" "metrics-adapter" "port" (int .metricsAdapter.port)) }}{{ end }}
{{- if .clusters.enabled }}{{ $ports = append $ports (dict "name" "clusters" "port" (int .clusters.port)) }}{{ end }}
{{- if .proxy.url }}{{ $ports = append $ports (dict "name" "proxy" "port" (int .proxy.port)) }}{{ end }}
{{- if .dashboard.hosts }}{{ $ports = append $ports (dict "name" "dashboard" "port" (int .dashboard.port)) }}{{ end }}
{{- end }}
{{- end }}
{{- toJson $ports }}
{{- end }}

{{/* Arguments of the program. */}}
{{- define "ironclad.arguments" -}}
{{- $words := list -}}
{{- $service := printf "%s/%s" .Release.Namespace .Release.Name -}}
{{- $metrics := printf "--metrics-bind-address=0.0.0.0:%d" (int .Values.metrics.port) -}}
{{- if eq .Values.mode "embedded" }}
{{- $name := .Release.Name }}
{{- $namespace := .Release.Namespace }}
{{- with .Values.embedded }}
{{- $hosts := concat .publicAddresses (list (printf "%s.%s.svc" $name $namespace) (printf "%s.%s" $name $namespace) $name) }}
{{- $words = list "up" "--data-dir=/data" (printf "--listen=0.0.0.0:%d" (int .port)) (printf "--tls-san=%s" (join "," $hosts)) (printf "--clusters=%d" (int .simulatedMembers)) $metrics }}
{{- end }}
{{- else if eq .Values.mode "external" }}
{{- $words = list "run" }}
{{- $ownCluster := include "ironclad.ownCluster" . }}
{{- $host := printf "%s.%s.svc" .Release.Name .Release.Namespace }}
{{- with .Values.external }}
{{- if not $ownCluster }}{{ $words = append $words (printf "--kubeconfig=/etc/ironclad/%s" .kubeconfigSecret.key) }}{{ end }}
{{- $words = concat $words (list (printf "--install=%s" (join "," .install | default "none")) "--script-state-dir=/var/lib/ironclad" $metrics) }}
{{- if .webhooks.enabled }}
{{- $words = append $words (printf "--webhook-bind-address=0.0.0.0:%d" (int .webhooks.port)) }}
{{- if .webhooks.url }}{{ $words = append $words (printf "--webhook-url=%s" .webhooks.url) }}
{{- else if $ownCluster }}{{ $words = append $words (printf "--webhook-service=%s:%d" $service (int .webhooks.port)) }}
{{- else }}{{ $words = append $words (printf "--webhook-url=https://%s:%d" $host (int .webhooks.port)) }}
{{- end }}
{{- end }}
{{- if .explain.enabled }}
{{- $words = concat $words (list (printf "--explain-bind-address=0.0.0.0:%d" (int .explain.port)) (printf "--explain-service=%s:%d" $service (int .explain.port))) }}
{{- end }}
{{- if .metricsAdapter.enabled }}
{{- $words = concat $words (list (printf "--metrics-adapter-bind-address=0.0.0.0:%d" (int .metricsAdapter.port)) (printf "--metrics-adapter-service=%s:%d" $service (int .metricsAdapter.port))) }}
{{- end }}
{{- if .clusters.enabled }}
{{- $words = concat $words (list "--aggregate-clusters" (printf "--clusters-bind-address=0.0.0.0:%d" (int .clusters.port)) (printf "--clusters-service=%s:%d" $service (int .clusters.port))) }}
{{- end }}
{{- if .proxy.url }}
{{- $words = concat $words (list (printf "--proxy-bind-address=0.0.0.0:%d" (int .proxy.port)) (printf "--proxy-url=%s" .proxy.url)) }}
{{- end }}
{{- if .dashboard.hosts }}
{{- $words = concat $words (list (printf "--dashboard-bind-address=0.0.0.0:%d" (int .dashboard.port)) (printf "--dashboard-host=%s" (join "," .dashboard.hosts))) }}
{{- if .dashboard.write }}{{ $words = append $words "--dashboard-write" }}{{ end }}
{{- end }}
{{- end }}
{{- else if eq .Values.mode "agent" }}
{{- with .Values.agent }}
{{- $words = list "agent" (printf "--cluster-name=%s" (required "agent.clusterName is empty" .clusterName)) "--karmada-kubeconfig=/etc/kubeconfig/karmada-kubeconfig" }}
{{- if ne .kubeconfigSecret "karmada-kubeconfig" }}{{ $words = append $words (printf "--karmada-kubeconfig-secret=%s" .kubeconfigSecret) }}{{ end }}
{{- if .apiEndpoint }}{{ $words = append $words (printf "--cluster-api-endpoint=%s" .apiEndpoint) }}{{ end }}
{{- if .proxyServerAddress }}{{ $words = append $words (printf "--proxy-server-address=%s" .proxyServerAddress) }}{{ end }}
{{- if .provider }}{{ $words = append $words (printf "--cluster-provider=%s" .provider) }}{{ end }}
{{- if .region }}{{ $words = append $words (printf "--cluster-region=%s" .region) }}{{ end }}
{{- if .zones }}{{ $words = append $words (printf "--cluster-zones=%s" (join "," .zones)) }}{{ end }}
{{- $words = append $words $metrics }}
{{- end }}
{{- end }}
{{- if .Values.controllers }}{{ $words = append $words (printf "--controllers=%s" (join "," .Values.controllers)) }}{{ end }}
{{- if .Values.featureGates }}
{{- $gates := list }}
{{- range $gate, $isOn := .Values.featureGates }}{{ $gates = append $gates (printf "%s=%t" $gate $isOn) }}{{ end }}
{{- $words = append $words (printf "--feature-gates=%s" (join "," $gates)) }}
{{- end }}
{{- toJson (concat $words .Values.extraArgs) }}
{{- end }}

{{/* The template of Pods. */}}
{{- define "ironclad.template" -}}
{{- $isAgent := eq .Values.mode "agent" -}}
metadata:
  labels:
    {{- include "ironclad.labels" . | nindent 4 }}
    {{- if $isAgent }}
    app: {{ .Release.Name | quote }}
    {{- end }}
  {{- with .Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "ironclad.account" . }}
  {{- if eq .Values.mode "embedded" }}
  automountServiceAccountToken: false
  {{- else if eq .Values.mode "external" }}
  automountServiceAccountToken: {{ include "ironclad.ownCluster" . | default "false" }}
  {{- end }}
  {{- $class := .Values.priorityClassName | default (ternary "system-cluster-critical" "" $isAgent) }}
  {{- with $class }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if or $isAgent .Values.tolerations }}
  tolerations:
    {{- if $isAgent }}
    - key: node-role.kubernetes.io/control-plane
      operator: Exists
    - key: node-role.kubernetes.io/master
      operator: Exists
    {{- end }}
    {{- with .Values.tolerations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    seccompProfile:
      type: RuntimeDefault
  containers:
    - name: {{ ternary .Release.Name "ironclad" $isAgent }}
      image: {{ include "ironclad.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: {{ include "ironclad.arguments" . }}
      {{- with .Values.extraEnv }}
      env:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        {{- range include "ironclad.ports" . | fromJsonArray }}
        - name: {{ .name }}
          containerPort: {{ int .port }}
          protocol: TCP
        {{- end }}
      {{- if not $isAgent }}
      startupProbe:
        httpGet:
          path: /healthz
          port: metrics
        periodSeconds: 5
        failureThreshold: 60
        timeoutSeconds: 5
      {{- end }}
      livenessProbe:
        httpGet:
          path: /healthz
          port: metrics
        periodSeconds: 20
        {{- if not $isAgent }}
        failureThreshold: 3
        timeoutSeconds: 5
        {{- end }}
      readinessProbe:
        httpGet:
          path: /readyz
          port: metrics
        periodSeconds: 5
        {{- if not $isAgent }}
        failureThreshold: 3
        timeoutSeconds: 5
        {{- end }}
      {{- if or .Values.resources.requests .Values.resources.limits }}
      resources:
        {{- with .Values.resources.requests }}
        requests:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        {{- with .Values.resources.limits }}
        limits:
          {{- toYaml . | nindent 10 }}
        {{- end }}
      {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      volumeMounts:
        {{- if eq .Values.mode "embedded" }}
        - name: data
          mountPath: /data
        {{- else if eq .Values.mode "external" }}
        - name: state
          mountPath: /var/lib/ironclad
        {{- if not (include "ironclad.ownCluster" .) }}
        - name: kubeconfig
          mountPath: /etc/ironclad
          readOnly: true
        {{- end }}
        {{- else }}
        - name: kubeconfig
          mountPath: /etc/kubeconfig
          readOnly: true
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  {{- if eq .Values.mode "embedded" }}
  volumes: {{ toJson .Values.extraVolumes }}
  {{- else }}
  volumes:
    {{- if eq .Values.mode "external" }}
    - name: state
      emptyDir: {}
    {{- with .Values.external.kubeconfigSecret.name }}
    - name: kubeconfig
      secret:
        secretName: {{ . }}
    {{- end }}
    {{- else }}
    - name: kubeconfig
      secret:
        secretName: {{ .Values.agent.kubeconfigSecret }}
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
{{- end }}
