#pragma once

// Everything that is used of prometheus-cpp; the way it is served is the user's choice.
#include <prometheus/client_metric.h>
#include <prometheus/collectable.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/metric_type.h>
