#pragma once

// All of prometheus-cpp that is used; the user chooses how it is served.
#include <prometheus/client_metric.h>
#include <prometheus/collectable.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/metric_type.h>
