{{- /*
What the charts of Gimbal have in common. `cargo xtask manifests` copies deploy/charts/shared/_gimbal.tpl into each chart, so that a chart
works by itself, as a subchart and straight from a checkout.
*/ -}}

{{- define "gimbal.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "gimbal.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gimbal.labels" -}}
{{ include "gimbal.selector" . }}
app.kubernetes.io/part-of: gimbal
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "gimbal.metadata" -}}
name: {{ include "gimbal.fullname" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "gimbal.labels" . | nindent 2 }}
{{- end -}}

{{- define "gimbal.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "gimbal.fullname" .) -}}
{{- end -}}

{{- define "gimbal.subject" -}}
kind: ServiceAccount
name: {{ include "gimbal.serviceAccountName" . }}
namespace: {{ .Release.Namespace }}
{{- end -}}

{{- define "gimbal.tlsSecret" -}}
{{- .Values.tls.secretName | default (printf "%s-tls" (include "gimbal.fullname" .)) -}}
{{- end -}}

{{- define "gimbal.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "gimbal.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "gimbal.labels" . | nindent 4 }}
  {{- with .Values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
# The pod asks for a token where it needs one.
automountServiceAccountToken: false
{{- end }}
{{- end -}}

{{- define "gimbal.podMetadata" -}}
labels:
  {{- include "gimbal.selector" . | nindent 2 }}
  app.kubernetes.io/part-of: gimbal
  {{- with .Values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* What every pod has before its containers. */ -}}
{{- define "gimbal.pod" -}}
serviceAccountName: {{ include "gimbal.serviceAccountName" . }}
# Else each Service of the namespace would become variables that begin like those of the program.
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .Values.affinity }}
affinity:
  {{- toYaml .Values.affinity | nindent 2 }}
{{- else if gt (int (.Values.replicas | default 1)) 1 }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "gimbal.selector" . | nindent 12 }}
{{- end }}
{{- end -}}

{{- define "gimbal.image" -}}
{{- $image := .Values.image -}}
image: {{ if $image.digest }}{{ printf "%s@%s" $image.repository $image.digest }}{{ else }}{{ printf "%s:%s" $image.repository ($image.tag | default .Chart.AppVersion) }}{{ end }}
imagePullPolicy: {{ $image.pullPolicy }}
{{- end -}}

{{- /* What every container has after its ports. */ -}}
{{- define "gimbal.container" -}}
livenessProbe: {httpGet: {path: /livez, port: admin}, periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 3}
readinessProbe: {httpGet: {path: /readyz, port: admin}, periodSeconds: 5, timeoutSeconds: 5}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{- define "gimbal.tlsArgs" -}}
- --tls-cert=/tls/tls.crt
- --tls-key=/tls/tls.key
- --tls-ca=/tls/ca.crt
{{- end -}}

{{- define "gimbal.tlsMount" -}}
- {name: tls, mountPath: /tls, readOnly: true}
{{- end -}}

{{- define "gimbal.tlsVolume" -}}
# As a folder, so that a renewed certificate reaches the process without a restart.
- {name: tls, secret: {secretName: {{ include "gimbal.tlsSecret" . }}}}
{{- end -}}

{{- /* The ports of the URLs in .Values.writer. */ -}}
{{- define "gimbal.writerPorts" -}}
{{- $ports := list -}}
{{- range .Values.writer -}}
{{- $ports = append $ports (dict "port" (regexFind "[0-9]+$" . | int)) -}}
{{- end -}}
{{- toYaml ($ports | uniq) -}}
{{- end -}}

{{- /* Rules of a NetworkPolicy that all programs need. */ -}}
{{- define "gimbal.metricsIngress" -}}
# Metrics. The kubelet's probes come from the node itself, which most network plug-ins always let in.
- from:
    {{- toYaml .Values.networkPolicy.monitoring | nindent 4 }}
  ports: [{port: admin}]
{{- end -}}

{{- define "gimbal.inspectionIngress" -}}
# Inspection, for whoever has a client certificate of an admin.
- from:
    {{- toYaml .Values.networkPolicy.inspection | nindent 4 }}
  ports: [{port: inspection}]
{{- end -}}

{{- define "gimbal.dnsEgress" -}}
- to:
    {{- toYaml .Values.networkPolicy.dns | nindent 4 }}
  ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
{{- end -}}

{{- define "gimbal.apiServerEgress" -}}
# The API server, which is no pod in most clusters.
- to:
    {{- toYaml .Values.networkPolicy.apiServer | nindent 4 }}
  ports:
    {{- range .Values.networkPolicy.apiServerPorts }}
    - port: {{ . }}
    {{- end }}
{{- end -}}

{{- define "gimbal.writerEgress" -}}
# The writer, at the ports of the URLs.
- to:
    {{- toYaml .Values.networkPolicy.writer | nindent 4 }}
  ports:
    {{- include "gimbal.writerPorts" . | nindent 4 }}
{{- end -}}

{{- define "gimbal.collectorEgress" -}}
# The collector of traces, at the port of its URL.
- to:
    {{- toYaml .Values.networkPolicy.collector | nindent 4 }}
  ports: [{port: {{ regexFind "[0-9]+$" .Values.traces.endpoint }}}]
{{- end -}}

{{- define "gimbal.podDisruptionBudget" -}}
{{- if gt (int .Values.replicas) 1 -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "gimbal.metadata" . | nindent 2 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "gimbal.selector" . | nindent 6 }}
{{- end }}
{{- end -}}

{{- define "gimbal.certificate" -}}
{{- with .Values.tls.certManager -}}
{{- if .enabled -}}
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  {{- include "gimbal.metadata" $ | nindent 2 }}
spec:
  secretName: {{ include "gimbal.tlsSecret" $ }}
  issuerRef:
    {{- toYaml .issuerRef | nindent 4 }}
  {{- with .dnsNames }}
  dnsNames:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .ipAddresses }}
  ipAddresses:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .uris }}
  uris:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  duration: {{ .duration }}
  renewBefore: {{ .renewBefore }}
  # The same pair serves and dials.
  usages: [digital signature, server auth, client auth]
  privateKey: {algorithm: ECDSA, size: 256, rotationPolicy: Always}
{{- end }}
{{- end }}
{{- end -}}

{{- define "gimbal.serviceMonitor" -}}
{{- with .Values.serviceMonitor -}}
{{- if .enabled -}}
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  {{- include "gimbal.metadata" $ | nindent 2 }}
    {{- with .labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels:
      {{- include "gimbal.selector" $ | nindent 6 }}
  endpoints:
  - port: admin
    {{- with .interval }}
    interval: {{ . }}
    {{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* The group of alerts that has the chart's name, from deploy/alerts. */ -}}
{{- define "gimbal.prometheusRule" -}}
{{- with .Values.prometheusRule -}}
{{- if .enabled -}}
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  {{- include "gimbal.metadata" $ | nindent 2 }}
    {{- with .labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  groups:
    {{- range $path, $_ := $.Files.Glob "alerts/*.yaml" }}
    {{- range ($.Files.Get $path | fromYaml).groups }}
    {{- if eq .name $.Chart.Name }}
    {{- toYaml (list .) | nindent 4 }}
    {{- end }}
    {{- end }}
    {{- end }}
{{- end }}
{{- end }}
{{- end -}}
