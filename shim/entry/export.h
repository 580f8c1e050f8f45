/* SPDX-License-Identifier: MIT */
/* What the version script lists must also be visible to it. */
#ifndef DLK_EXPORT_H
#define DLK_EXPORT_H

#define DLK_EXPORT __attribute__((visibility("default")))

#endif
